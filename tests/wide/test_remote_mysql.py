"""The contract through the service in front of MariaDB: both kinds of client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.engines.mysql import install
from lockfast.testing import (
    BodyContract,
    ClientContract,
    ClockContract,
    DeposedContract,
    MachineContract,
    PortContract,
    ProcessContract,
    QueueShapeContract,
    ShapeContract,
)
from tests.contract.benches import MysqlBench
from tests.contract.service_bench import ServiceBench
from tests.servers import MariaDB, ServerClock


@pytest.fixture(scope="module")
def bench() -> Iterator[ServiceBench]:
    clock = ServerClock()
    # What a power cut would cost is no part of the contract, and half of its time.
    with MariaDB(env=clock.env, config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        install(server.url)
        with ServiceBench(MysqlBench(server, clock=clock)) as bench:
            yield bench


class TestPort(PortContract):
    pass


class TestClock(ClockContract):
    pass


class TestMachine(MachineContract):
    pass


class TestQueueShapes(QueueShapeContract):
    pass


class TestClient(ClientContract):
    pass


class TestShapes(ShapeContract):
    pass


class TestDeposed(DeposedContract):
    pass


class TestBodies(BodyContract):
    pass


class TestProcesses(ProcessContract):
    pass
