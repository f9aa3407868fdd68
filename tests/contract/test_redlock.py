"""The contract on Redlock, on five nodes in both colours: all that needs no queue, no sharing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.testing import (
    BodyContract,
    ClientContract,
    ExclusiveContract,
    ProcessContract,
    StepBackContract,
)
from tests.contract.benches import RedlockBench
from tests.servers import RedlockSet, ServerClock


@pytest.fixture(scope="module")
def bench() -> Iterator[RedlockBench]:
    clock = ServerClock()
    with RedlockSet(clock=clock) as servers:
        yield RedlockBench(servers, clock)


class TestPort(ExclusiveContract):
    pass


class TestClock(StepBackContract):
    pass


class TestClient(ClientContract):
    pass


class TestBodies(BodyContract):
    pass


class TestProcesses(ProcessContract):
    pass
