"""The contract on a cluster of three etcd members: all of it, in both colours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.testing import (
    BodyContract,
    ClientContract,
    DeposedContract,
    MachineContract,
    ManyReadersContract,
    PortContract,
    ProcessContract,
    QueueShapeContract,
    ShapeContract,
    StillMachine,
)
from tests.contract.benches import EtcdBench
from tests.servers import EtcdCluster


@pytest.fixture(scope="module")
def bench() -> Iterator[EtcdBench]:
    with EtcdCluster() as cluster:
        yield EtcdBench(cluster)


class TestPort(PortContract):
    pass


class TestMachine(MachineContract):
    machine = StillMachine
    examples = MachineContract.examples * 6 // 100


class TestClient(ClientContract):
    pass


class TestBodies(BodyContract):
    pass


class TestProcesses(ProcessContract):
    pass


class TestShapes(ShapeContract):
    pass


class TestQueueShapes(QueueShapeContract):
    pass


class TestManyReaders(ManyReadersContract):
    pass


class TestDeposed(DeposedContract):
    pass
