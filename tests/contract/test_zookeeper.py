"""The contract on an ensemble of three: all of it, in both colours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.testing import (
    BodyContract,
    ClientContract,
    PortContract,
    ProcessContract,
)
from tests.contract.benches import ZooKeeperBench
from tests.servers import ZooKeeperEnsemble


@pytest.fixture(scope="module")
def ensemble() -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble() as ensemble:
        yield ensemble


@pytest.fixture(scope="module")
def bench(ensemble: ZooKeeperEnsemble) -> ZooKeeperBench:
    return ZooKeeperBench(ensemble)


class TestPort(PortContract):
    pass


class TestClient(ClientContract):
    pass


class TestBodies(BodyContract):
    pass


class TestProcesses(ProcessContract):
    pass
