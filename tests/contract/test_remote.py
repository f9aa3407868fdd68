"""The contract through the service in front of Redis: both kinds of client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.testing import (
    BodyContract,
    ClientContract,
    ClockContract,
    DeposedContract,
    MachineContract,
    ManyReadersContract,
    PortContract,
    ProcessContract,
    QueueShapeContract,
    ShapeContract,
)
from tests.contract.benches import RedisBench
from tests.contract.service_bench import ServiceBench
from tests.servers import Redis, ServerClock


@pytest.fixture(scope="module")
def bench() -> Iterator[ServiceBench]:
    clock = ServerClock()
    with (
        Redis(env=clock.env) as server,
        ServiceBench(RedisBench(server.url, server, clock=clock)) as bench,
    ):
        yield bench


class TestPort(PortContract):
    pass


class TestClock(ClockContract):
    pass


class TestMachine(MachineContract):
    examples = MachineContract.examples // 10


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
