"""The contract through the service in front of three etcd members: both kinds of client."""

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
    NamingContract,
    ProcessContract,
    QueueContract,
    QueueShapeContract,
    RecordContract,
    RenewContract,
    ResignContract,
    ShapeContract,
    SharingContract,
    WakeContract,
)
from tests.contract.benches import EtcdBench
from tests.contract.service_bench import ServiceBench
from tests.servers import EtcdCluster


@pytest.fixture(scope="module")
def bench() -> Iterator[ServiceBench]:
    with EtcdCluster() as cluster, ServiceBench(EtcdBench(cluster)) as bench:
        yield bench


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


class TestOthers(ResignContract, ExpiryContract, SharingContract):
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
