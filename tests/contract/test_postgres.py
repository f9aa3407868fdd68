"""The contract on PostgreSQL: all of it, in both modes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.engines.postgres import install
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
from tests.contract.benches import PostgresBench
from tests.servers import Postgres, ServerClock


@pytest.fixture(scope="module")
def bench() -> Iterator[PostgresBench]:
    clock = ServerClock()
    # What a power cut would cost is no part of the contract, and half of its time.
    with Postgres(env=clock.env, config={"fsync": "off"}) as server:
        install(server.url)
        yield PostgresBench(server, clock=clock)


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
