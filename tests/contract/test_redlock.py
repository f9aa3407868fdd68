"""The contract on Redlock, on five nodes in both modes: all that needs no queue, no sharing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.testing import (
    BodyContract,
    ClaimContract,
    ClientContract,
    CrowdContract,
    DeposedContract,
    ExclusiveContract,
    ListenContract,
    ProcessContract,
    ReplicaContract,
    ShapeContract,
    StepBackContract,
)
from tests.contract.benches import RedlockBench
from tests.servers import Redis, RedlockSet, ServerClock

ACL = "resetchannels ~lockfast:* &lockfast:* +@all -@admin -@dangerous +info"


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
    rounds = ClientContract.rounds // 4


class TestBodies(BodyContract):
    pass


class TestProcesses(ProcessContract):
    pass


class TestShapes(ShapeContract):
    pass


class TestDeposed(DeposedContract):
    pass


class TestReplicas(ReplicaContract):
    pass


@pytest.fixture(scope="module")
def tls() -> Iterator[RedlockBench]:
    clock = ServerClock()
    first = Redis(tls=True, username="app", password="p@ss/w:rd", acl=ACL, env=clock.env)  # noqa: S106  # of a server that lives for a minute
    others = [
        Redis(
            tls=first,
            username="app",
            password="p@ss/w:rd",  # noqa: S106  # see above
            acl=ACL,
            env=clock.env,
        )
        for _ in range(2)
    ]
    with RedlockSet([first, *others]) as servers:
        yield RedlockBench(servers, clock)


class TestTls(ClaimContract, ListenContract, CrowdContract):
    """The parts that go through sockets, on three nodes with TLS, a password and an ACL user."""

    @pytest.fixture
    def bench(self, tls: RedlockBench) -> RedlockBench:
        return tls
