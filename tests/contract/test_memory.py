"""The contract on the memory engine: the reference model, and so the contract's own check."""

from __future__ import annotations

import pytest

from lockfast.testing import (
    BodyContract,
    ClientContract,
    ClockContract,
    Contract,
    DepartureContract,
    DepartureQueueContract,
    MachineContract,
    PortContract,
    QueueShapeContract,
    ReplicaContract,
    ReplicaMachineContract,
    ReplicaQueueContract,
    ShapeContract,
    Stage,
    driven,
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


class TestReplicas(
    ReplicaContract, ReplicaQueueContract, DepartureContract, DepartureQueueContract
):
    pass


class TestClock(ClockContract):
    pass


class TestTime(Contract):
    @driven
    async def test_the_time_is_that_of_the_memorys_clock(self, stage: Stage) -> None:
        actor = stage.actor()
        first = actor.time()
        await stage.advance(30)
        assert 30.0 <= actor.time() - first < 35.0


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
