"""The contract on MariaDB: all of it, in both modes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.engines.mysql import install
from lockfast.testing import (
    BodyContract,
    ClientContract,
    ClockContract,
    DepartureContract,
    DepartureQueueContract,
    DeposedContract,
    FixedTimeContract,
    MachineContract,
    PortContract,
    ProcessContract,
    QueueShapeContract,
    ReplicaContract,
    ReplicaMachineContract,
    ReplicaQueueContract,
    ShapeContract,
)
from tests.contract.benches import MysqlBench
from tests.servers import MariaDB, ServerClock


@pytest.fixture(scope="module")
def bench() -> Iterator[MysqlBench]:
    clock = ServerClock()
    # What a power cut would cost is no part of the contract, and half of its time.
    with MariaDB(env=clock.env, config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        install(server.url)
        yield MysqlBench(server, clock=clock)


class TestPort(PortContract):
    pass


class TestReplicas(
    ReplicaContract, ReplicaQueueContract, DepartureContract, DepartureQueueContract
):
    pass


class TestClock(ClockContract):
    pass


class TestFixedTimes(FixedTimeContract):
    pass


class TestMachine(MachineContract):
    examples = MachineContract.examples * 3 // 10


class TestReplicaMachine(ReplicaMachineContract):
    examples = ReplicaMachineContract.examples * 3 // 10


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
