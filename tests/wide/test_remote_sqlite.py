"""The contract through the service in front of SQLite: both kinds of client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.testing import (
    BodyContract,
    ClientContract,
    DeposedContract,
    PortContract,
    ProcessContract,
    QueueShapeContract,
    ShapeContract,
)
from tests.contract.benches import SqliteBench
from tests.contract.service_bench import ServiceBench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceBench]:
    with ServiceBench(SqliteBench(tmp_path_factory.mktemp("sqlite"))) as bench:
        yield bench


class TestPort(PortContract):
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
