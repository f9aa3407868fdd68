"""What may differ between the ways to run Redis: TLS with an ACL user, Sentinel, Cluster.

The rule is the same script everywhere, and held to the whole contract on a standalone server. Here
are the parts that go through addresses, greetings, slots and pushes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.port import Page
from lockfast.testing import (
    ClaimContract,
    CrowdContract,
    DepartureContract,
    DepartureQueueContract,
    FixedTimeContract,
    InspectContract,
    LeaseContract,
    ListenContract,
    QueueContract,
    RenewContract,
    ReplicaContract,
    ReplicaQueueContract,
    ResignContract,
    SharingContract,
    Stage,
    TimeContract,
    TogetherContract,
    WakeContract,
    driven,
)
from tests.contract.benches import RedisBench
from tests.servers import Cluster, Redis, SentinelSet, ServerClock

ACL = "resetchannels ~lockfast:* &lockfast:* +@all -@admin -@dangerous"


class Ways(ClaimContract, ListenContract, WakeContract, InspectContract, LeaseContract):
    pass


class AllWays(Ways, QueueContract, SharingContract, RenewContract, ResignContract, CrowdContract):
    pass


@pytest.fixture(scope="module")
def tls() -> Iterator[RedisBench]:
    clock = ServerClock()
    with Redis(tls=True, username="app", password="p@ss/w:rd", acl=ACL, env=clock.env) as server:  # noqa: S106  # of a server that lives for a minute
        yield RedisBench(server.url, server, clock=clock)


@pytest.fixture(scope="module")
def sentinel() -> Iterator[RedisBench]:
    with SentinelSet(password="secret") as servers:  # noqa: S106  # see above
        yield RedisBench(servers.url, servers.primary())


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisBench]:
    clock = ServerClock()
    with Cluster(env=clock.env) as servers:
        for node in servers.nodes:  # a clock that is moved must not make its peers look dead
            node.command("CONFIG", "SET", "cluster-node-timeout", 3_600_000)
        yield RedisBench(servers.url, *servers.nodes, clock=clock)


class TestTls(AllWays):
    @pytest.fixture
    def bench(self, tls: RedisBench) -> RedisBench:
        return tls


class TestSentinel(Ways, ReplicaQueueContract):
    @pytest.fixture
    def bench(self, sentinel: RedisBench) -> RedisBench:
        return sentinel


class TestCluster(
    AllWays,
    TogetherContract,
    ReplicaContract,
    ReplicaQueueContract,
    DepartureContract,
    DepartureQueueContract,
    TimeContract,
    FixedTimeContract,
):
    @pytest.fixture
    def bench(self, cluster: RedisBench) -> RedisBench:
        return cluster

    @driven
    async def test_a_cursor_of_a_cluster_that_had_more_servers_ends_the_list(
        self, stage: Stage
    ) -> None:
        page = await stage.actor().engine.inspect("", '[99, "0", null]', exact=False)
        assert page == Page([], None)
