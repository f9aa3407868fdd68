"""The contract on the memory engine: the reference model, and so the contract's own check."""

from __future__ import annotations

import pytest

from lockfast.testing import (
    BodyContract,
    ClientContract,
    ClockContract,
    MachineContract,
    PortContract,
    QueueShapeContract,
    ReplicaContract,
    ReplicaMachineContract,
    ReplicaQueueContract,
    ShapeContract,
)
from tests.contract.benches import MemoryBench, MemoryUrlBench


@pytest.fixture(scope="module")
def bench() -> MemoryBench:
    return MemoryBench()


class InRealTime:
    @pytest.fixture
    def bench(self) -> MemoryUrlBench:
        return MemoryUrlBench()


class TestPort(PortContract):
    pass


class TestReplicas(ReplicaContract, ReplicaQueueContract):
    pass


class TestClock(ClockContract):
    pass


class TestMachine(MachineContract):
    pass


class TestReplicaMachine(ReplicaMachineContract):
    pass


class TestClient(InRealTime, ClientContract):
    pass


class TestShapes(InRealTime, ShapeContract):
    pass


class TestQueueShapes(InRealTime, QueueShapeContract):
    pass


class TestBodies(InRealTime, BodyContract):
    pass
