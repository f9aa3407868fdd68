"""The contract on a cluster of three etcd members: all of it, in both modes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.testing import (
    BodyContract,
    ClaimContract,
    ClientContract,
    DeposedContract,
    ExpiryContract,
    InspectContract,
    ListenContract,
    MachineContract,
    NamingContract,
    ProcessContract,
    QueueContract,
    QueueShapeContract,
    RecordContract,
    RenewContract,
    ReplicaContract,
    ReplicaQueueContract,
    ResignContract,
    ShapeContract,
    SharingContract,
    StillMachine,
    WakeContract,
)
from tests.contract.benches import EtcdBench
from tests.servers import EtcdCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as cluster:
        yield cluster


@pytest.fixture
def bench(cluster: EtcdCluster) -> EtcdBench:
    return EtcdBench(cluster)


class TestPort(
    ClaimContract,
    RenewContract,
    ListenContract,
    QueueContract,
    WakeContract,
    InspectContract,
    NamingContract,
    RecordContract,
):
    pass


class TestReplicas(ReplicaContract, ReplicaQueueContract):
    pass


class TestTimes(ResignContract, ExpiryContract, SharingContract):
    """The rest of the port's contract: it waits most, and can do so in shorter units, since no
    test of it asks what another's lease has left, which etcd tells in whole seconds.
    """

    @pytest.fixture
    def bench(self, cluster: EtcdCluster) -> EtcdBench:
        bench = EtcdBench(cluster)
        bench.unit = 0.25
        return bench


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


class TestDeposed(DeposedContract):
    pass
