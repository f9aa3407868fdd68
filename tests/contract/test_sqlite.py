"""The contract on SQLite: all of it, in both modes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockfast.testing import (
    BodyContract,
    ClientContract,
    ClockContract,
    DepartureContract,
    DepartureQueueContract,
    DeposedContract,
    FixedTimeContract,
    MachineContract,
    ManyReadersContract,
    PortContract,
    ProcessContract,
    QueueShapeContract,
    ReplicaContract,
    ReplicaMachineContract,
    ReplicaQueueContract,
    ShapeContract,
)
from tests.contract.benches import SqliteBench, SqliteMovedBench


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Give a folder in memory: what a disk costs is no part of the contract, and half its time."""
    memory = Path("/dev/shm")  # noqa: S108  # each run has a folder of its own there
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def bench(folder: Path) -> SqliteBench:
    return SqliteBench(folder)


class ByAMovedClock:
    @pytest.fixture
    def bench(self, folder: Path) -> SqliteMovedBench:
        return SqliteMovedBench(folder)


class TestPort(ByAMovedClock, PortContract):
    pass


class TestReplicas(
    ByAMovedClock, ReplicaContract, ReplicaQueueContract, DepartureContract, DepartureQueueContract
):
    pass


class TestClock(ByAMovedClock, ClockContract):
    pass


class TestFixedTimes(ByAMovedClock, FixedTimeContract):
    pass


class TestMachine(ByAMovedClock, MachineContract):
    pass


class TestReplicaMachine(ByAMovedClock, ReplicaMachineContract):
    pass


class TestClient(ClientContract):
    pass


class TestShapes(ShapeContract):
    pass


class TestQueueShapes(QueueShapeContract):
    pass


class TestManyReaders(ManyReadersContract):
    pass


class TestDeposed(DeposedContract):
    pass


class TestBodies(BodyContract):
    pass


class TestProcesses(ProcessContract):
    pass
