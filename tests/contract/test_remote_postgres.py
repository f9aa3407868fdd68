"""The contract through the service in front of PostgreSQL: both kinds of client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.engines.postgres import install
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
from tests.contract.benches import PostgresBench
from tests.contract.service_bench import ServiceBench
from tests.servers import Postgres, ServerClock


@pytest.fixture(scope="module")
def bench() -> Iterator[ServiceBench]:
    clock = ServerClock()
    # What a power cut would cost is no part of the contract, and half of its time.
    with Postgres(env=clock.env, config={"fsync": "off"}) as server:
        install(server.url)
        with ServiceBench(PostgresBench(server, clock=clock)) as bench:
            yield bench


class TestPort(PortContract):
    pass


class TestClock(ClockContract):
    pass


class TestMachine(MachineContract):
    examples = MachineContract.examples // 10


class TestClient(ClientContract):
    pass


class TestShapes(ShapeContract):
    pass


class TestQueueShapes(QueueShapeContract):
    pass


class TestDeposed(DeposedContract):
    pass


class TestBodies(BodyContract):
    pass


class TestProcesses(ProcessContract):
    pass
