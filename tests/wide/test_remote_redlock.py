"""The contract through the service in front of five Redis servers: both kinds of client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.testing import (
    BodyContract,
    ClientContract,
    DeposedContract,
    ExclusiveContract,
    ProcessContract,
    ShapeContract,
    StepBackContract,
)
from tests.contract.benches import RedlockBench
from tests.contract.service_bench import ServiceBench
from tests.servers import RedlockSet, ServerClock


@pytest.fixture(scope="module")
def bench() -> Iterator[ServiceBench]:
    clock = ServerClock()
    with RedlockSet(clock=clock) as servers, ServiceBench(RedlockBench(servers, clock)) as bench:
        yield bench


class TestPort(ExclusiveContract):
    # Redlock has no clock of its own. The service compares `not_after` by the wall clock, which
    # this test cannot move.
    test_an_id_that_was_pruned_stays_dead = None  # type: ignore[assignment]


class TestClock(StepBackContract):
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
