"""The Redis guard on a Redis Cluster: one slot, or a clear refusal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest
import redis
import redis.asyncio

from lockfast import StaleToken
from lockfast.guards.redis import AsyncRedisGuard, RedisGuard
from tests.guards.holders import Driven, two_holders, writer
from tests.servers import Cluster
from tests.traps.modes import Loop


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[redis.RedisCluster]:
    node = cluster.nodes[0]
    with redis.RedisCluster(host=node.host, port=node.port) as client:
        yield client


@pytest.fixture(params=["threads", "asyncio"])
def guard(
    request: pytest.FixtureRequest, cluster: Cluster, client: redis.RedisCluster
) -> Iterator[RedisGuard]:
    client.flushall()
    if request.param == "threads":
        yield RedisGuard(client)
        return
    node = cluster.nodes[0]
    with Loop() as loop:

        async def connect() -> redis.asyncio.RedisCluster:
            return redis.asyncio.RedisCluster(host=node.host, port=node.port)

        remote = loop.run(connect())
        yield cast("RedisGuard", Driven(loop, AsyncRedisGuard(remote)))
        loop.run(remote.aclose())


def test_keys_with_the_locks_name_as_their_tag_are_guarded(
    guard: RedisGuard, client: redis.RedisCluster
) -> None:
    with two_holders("invoice:42") as (stale, fresh):
        guard.seal(fresh)
        commands = [("SET", "invoice:42", "a"), ("RPUSH", "{invoice:42}:lines", "b", "c")]
        assert guard.apply(fresh, commands) == [b"OK", 2]
        with pytest.raises(StaleToken):
            guard.apply(stale, [("SET", "invoice:42", "z")])
        assert client.get("invoice:42") == b"a"


@pytest.mark.parametrize(
    "elsewhere",
    [
        ("SET", "other", "v"),
        ("MSET", "{x}a", "v", "other", "v"),
        ("DEL", "{x}a", "other"),
        ("ZUNIONSTORE", "{x}d", 2, "{x}a", "other"),
        ("XGROUP", "CREATE", "other", "g", "$", "MKSTREAM"),
    ],
    ids=lambda command: str(command[0]),
)
def test_a_key_in_another_slot_is_refused_before_anything_is_applied(
    guard: RedisGuard, client: redis.RedisCluster, elsewhere: tuple[str | int, ...]
) -> None:
    with pytest.raises(ValueError, match="'other' is in another slot of the cluster than its mark"):
        guard.apply(writer(7), [("SET", "{x}first", "v"), elsewhere])
    assert client.get("{x}first") is None


def test_commands_whose_keys_move_are_understood(
    guard: RedisGuard, client: redis.RedisCluster
) -> None:
    commands = [
        ("ZADD", "{x}a", 1, "m"),
        ("ZUNIONSTORE", "{x}d", 2, "{x}a", "{x}b"),
        ("XGROUP", "CREATE", "{x}s", "g", "$", "MKSTREAM"),
        ("PUBLISH", "channel", "no key at all"),
    ]
    assert guard.apply(writer(7), commands)[1] == 1
    assert client.zcard("{x}d") == 1


def test_a_tag_binds_the_mark_to_the_keys_of_another_name(client: redis.RedisCluster) -> None:
    client.flushall()
    guard = RedisGuard(client, tag="tenant 7")
    guard.apply(writer(7, name="any lock"), [("SET", "{tenant 7}:k", "v")])
    with pytest.raises(StaleToken):
        guard.apply(writer(6, name="any lock"), [("SET", "{tenant 7}:k", "w")])


def test_a_slot_that_moves_takes_the_mark_along(
    guard: RedisGuard, client: redis.RedisCluster, cluster: Cluster
) -> None:
    guard.apply(writer(7), [("SET", "{x}k", "v")])
    move = cluster.begin_move(cluster.slot_of("x"))
    guard.apply(writer(7), [("SET", "{x}k", "during")])
    move.finish()
    with pytest.raises(StaleToken):
        guard.apply(writer(6), [("SET", "{x}k", "stale")])
    guard.apply(writer(7), [("SET", "{x}k", "after")])
    assert client.get("{x}k") == b"after"


@pytest.mark.parametrize("moved", ["mark", "data"])
def test_while_half_of_a_slot_has_moved_nothing_is_applied_twice_or_elsewhere(
    client: redis.RedisCluster, cluster: Cluster, moved: str
) -> None:
    client.flushall()
    node = cluster.nodes[0]
    mark, data = "lockfast:mark:{x}x", "{x}k"
    with redis.RedisCluster(host=node.host, port=node.port, retry=None) as impatient:
        RedisGuard(client).apply(writer(7), [("INCR", data)])
        move = cluster.begin_move(cluster.slot_of("x"))
        move.move_keys(mark if moved == "mark" else data)
        with pytest.raises(redis.RedisError):
            RedisGuard(impatient).apply(writer(7), [("INCR", data)])
        move.finish()
    assert RedisGuard(client).apply(writer(7), [("INCR", data)]) == [2]
