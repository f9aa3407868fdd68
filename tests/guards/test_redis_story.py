"""The story on Redis, and what only a failover shows: a mark that rewinds with its data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from lockfast import StaleToken
from lockfast.guards.redis import RedisGuard
from tests.guards.holders import two_holders
from tests.guards.resources.redis import AsyncRedisRegister, RedisRegister
from tests.guards.story import Resource, corrupted, refused
from tests.servers import Redis


@pytest.fixture(scope="module")
def engine() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture
def server() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A lock of its own for each test: B of the last one is killed while it holds."""
    return str(request.node.name)


@pytest.mark.parametrize("register", [RedisRegister, AsyncRedisRegister])
def test_a_holder_that_was_paused_past_its_lease_is_refused(
    engine: Redis, server: Redis, register: type[Resource], name: str
) -> None:
    refused(engine.url, register, server.url, name)


def test_without_the_guard_the_paused_holder_overwrites_its_successor(
    engine: Redis, server: Redis, name: str
) -> None:
    corrupted(engine.url, RedisRegister, server.url, name)


def test_the_engines_own_redis_may_keep_the_data_too(engine: Redis, name: str) -> None:
    refused(engine.url, RedisRegister, engine.url, name)


def test_a_failover_that_forgets_the_mark_forgets_the_data_with_it_and_lets_the_stale_in(
    server: Redis,
) -> None:
    with (
        Redis(replica_of=server) as replica,
        redis.Redis.from_url(server.url) as old,
        redis.Redis.from_url(replica.url) as new,
        two_holders("x") as (stale, fresh),
    ):
        replica.wait_linked()
        old.set("k", "before")
        assert old.wait(1, 5000) == 1
        new.replicaof("NO", "ONE")  # from here on it receives nothing
        RedisGuard(old).apply(fresh, [("SET", "k", "fresh")])
        server.kill()
        promoted = RedisGuard(new)
        assert new.get("k") == b"before"
        promoted.apply(stale, [("SET", "k", "stale")])  # labelled so: the mark rewound
        promoted.seal(fresh)  # and stands again from here on
        with pytest.raises(StaleToken):
            promoted.apply(stale, [("SET", "k", "stale again")])
