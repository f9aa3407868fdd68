"""What each engine promises is asked of the live server, and each planted weakness is found."""

from __future__ import annotations

import contextlib

import pytest

import lockfast
from lockfast import Guarantees, Level
from lockfast.engines import redlock
from lockfast.engines.postgres import install
from tests.servers import Cluster, PgBouncer, Postgres, Redis, RedlockSet, SentinelSet
from tests.servers.redlock import url_of

DURABLE = {"appendfsync": "always"}


def probed(url: str) -> Guarantees:
    with lockfast.connect(url) as client:
        return client.guarantees()


def settings(found: Guarantees) -> list[str]:
    return [finding.setting for finding in found.findings]


def test_memory_promises_little() -> None:
    assert probed("memory://").level is Level.EFFICIENCY


def test_a_well_kept_redis_is_fenced_and_there_is_nothing_to_say() -> None:
    with Redis(appendonly=True, config=DURABLE) as server:
        found = probed(server.url)
    assert (found.level, found.findings) == (Level.FENCED, ())
    assert "Redis 7" in found.sentence
    assert "standalone" in found.sentence


def test_an_evicting_redis_is_found_and_refused() -> None:
    with Redis(
        appendonly=True, config={**DURABLE, "maxmemory-policy": "allkeys-lru", "maxmemory": "64mb"}
    ) as server:
        found = probed(server.url)
        assert found.level is Level.EFFICIENCY
        assert settings(found) == ["maxmemory-policy = allkeys-lru"]
        with (
            lockfast.connect(server.url, require="fenced") as client,
            pytest.raises(lockfast.GuaranteeMissing, match="maxmemory-policy noeviction"),
        ):
            client.lock("x").acquire(timeout=0)
        with lockfast.connect(server.url, require="efficiency") as client:
            client.lock("x").acquire(timeout=0).release()


def test_an_evicting_policy_without_a_limit_is_only_told() -> None:
    with Redis(appendonly=True, config={**DURABLE, "maxmemory-policy": "allkeys-lru"}) as server:
        found = probed(server.url)
    assert found.level is Level.FENCED
    assert settings(found) == ["maxmemory-policy = allkeys-lru"]


def test_a_redis_without_persistence_is_found() -> None:
    with Redis() as server:
        assert settings(probed(server.url)) == ["appendonly = no"]


def test_behind_sentinel_and_in_a_cluster_the_same_is_asked() -> None:
    with SentinelSet() as servers:
        assert "behind Sentinel" in probed(servers.url).engine
    with Cluster() as cluster:
        found = probed(cluster.url)
    assert "Cluster" in found.engine
    assert settings(found) == ["appendonly = no"]  # said once, not once per node


def test_a_well_kept_postgresql_is_fenced_and_there_is_nothing_to_say() -> None:
    with Postgres() as server:
        install(server.url)
        found = probed(server.url)
        assert (found.level, found.findings) == (Level.FENCED, ())
        assert "PostgreSQL 15" in found.sentence
        with (
            lockfast.connect(server.url, require=Level.CONSENSUS) as client,
            pytest.raises(lockfast.GuaranteeMissing, match="consensus is required"),
        ):
            client.lock("x").acquire(timeout=0)


def test_a_postgresql_without_fsync_is_found_and_refused() -> None:
    with Postgres(config={"fsync": "off"}) as server:
        found = probed(server.url)
    assert found.level is Level.EFFICIENCY
    assert settings(found) == ["fsync = off"]


def test_a_pooler_that_swallows_the_wake_ups_is_found() -> None:
    with Postgres() as server, PgBouncer(server) as pooler:
        found = probed(pooler.url)
        assert settings(found) == ["a pooler in transaction mode"]
        assert settings(probed(f"{pooler.url}?listen={server.url}")) == []
        assert settings(probed(f"{pooler.url}?listen={pooler.url}")) == settings(found)


def test_a_level_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="'efficiency', 'fenced', 'consensus'"):
        lockfast.connect("memory://", require="exactly once")


def test_a_well_kept_redlock_is_fenced_and_there_is_nothing_to_say() -> None:
    with RedlockSet(3) as servers:
        found = probed(servers.url)
        assert (found.level, found.findings) == (Level.FENCED, ())
        assert found.engine.startswith("Redlock on 3 nodes, Redis 7")
        with lockfast.connect(servers.url, require="fenced") as client:
            client.lock("x").acquire(timeout=0).release()


def test_weak_nodes_of_a_redlock_are_found_and_a_minority_of_them_changes_nothing() -> None:
    evicting = Redis(config={"maxmemory-policy": "allkeys-lru", "maxmemory": "64mb"})
    with RedlockSet([Redis(), Redis(), Redis(), evicting]) as servers:
        first, second, third, _ = servers.nodes
        with Redis(replica_of=third) as replica:
            replica.wait_linked()
            first.kill()
            second.command("FLUSHALL")
            found = probed(servers.url)
    assert found.level is Level.FENCED
    assert settings(found) == [
        "nodes = 4",
        f"{first.address} is down",
        f"{second.address} is not a member",
        f"{third.address} has a replica, or is one",
        "maxmemory-policy = allkeys-lru",
    ]


def test_a_redlock_that_was_not_installed_is_found_and_nobody_is_told_to_wait() -> None:
    with contextlib.ExitStack() as stack:
        url = url_of(*(stack.enter_context(Redis()) for _ in range(3)))
        (finding,) = probed(url).findings
        assert finding.setting == "0 of 3 nodes are members"
        assert "install` once" in finding.remedy
        redlock.install(url)
        assert probed(url).findings == ()


def test_a_redlock_of_two_or_with_a_server_named_twice_is_refused() -> None:
    with RedlockSet(2) as servers:
        found = probed(servers.url)
        assert (found.level, settings(found)) == (Level.EFFICIENCY, ["nodes = 2"])
        first, second = servers.nodes
        twice = [first.address, second.address, f"localhost:{first.port}"]
        found = probed(url_of(*servers.nodes, addresses=twice))
    assert found.level is Level.EFFICIENCY
    assert settings(found) == ["two addresses of one server"]
