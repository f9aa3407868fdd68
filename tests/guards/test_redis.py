"""The Redis guard, on a real Redis: what it refuses, what it applies, what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import cast

import pytest
import redis
import redis.asyncio

import lockfast
from lockfast import LeaseLost, Loss, StaleToken, State, aio
from lockfast.guards.redis import AsyncRedisGuard, PartlyApplied, RedisGuard
from tests.guards.holders import Driven, permit, reader, two_holders, writer
from tests.servers import Redis, wait_until
from tests.traps.modes import Loop

MARK = "lockfast:mark:{x}x"
A, B = "a" * 32, "b" * 32


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture
def server(shared_server: Redis) -> Redis:
    shared_server.command("FLUSHALL")
    return shared_server


@pytest.fixture
def client(server: Redis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture(params=["threads", "asyncio"])
def guard(
    request: pytest.FixtureRequest, server: Redis, client: redis.Redis
) -> Iterator[RedisGuard]:
    """One guard per mode; both are used as a blocking one is."""
    if request.param == "threads":
        yield RedisGuard(client)
        return
    with Loop() as loop:
        remote = redis.asyncio.Redis.from_url(server.url)
        yield cast("RedisGuard", Driven(loop, AsyncRedisGuard(remote)))
        loop.run(remote.aclose())


def test_a_stale_write_is_refused_and_changes_nothing(
    guard: RedisGuard, client: redis.Redis
) -> None:
    with two_holders("x") as (stale, fresh):
        assert guard.apply(stale, [("SET", "k", "first")]) == [b"OK"]
        guard.apply(fresh, [("SET", "k", "second")])
        with pytest.raises(StaleToken, match=f"already seen token {fresh.token}"):
            guard.apply(stale, [("SET", "k", "third"), ("INCR", "n")])
        assert client.get("k") == b"second"
        assert client.get("n") is None


def test_a_refusal_makes_the_lease_lost_and_tells_its_holder(guard: RedisGuard) -> None:
    told = []
    with two_holders("x") as (stale, fresh):
        stale.on_lost(lambda: told.append("lost"))
        guard.seal(fresh)
        assert stale.state is State.HELD  # its engine has not told it
        with pytest.raises(StaleToken):
            guard.apply(stale, [("SET", "k", "v")])
        assert (stale.state, stale.loss) == (State.LOST, Loss.FENCED)
        with pytest.raises(LeaseLost, match="a guarded resource has seen a higher token"):
            stale.ensure_held()
        wait_until(lambda: told == ["lost"], "on_lost was called")
        fresh.ensure_held()


def test_a_seal_refuses_the_stale_write_that_comes_between_a_read_and_the_first_write(
    guard: RedisGuard, client: redis.Redis
) -> None:
    client.set("n", 10)
    with two_holders("x") as (stale, fresh):
        guard.seal(fresh)
        read = int(cast("bytes", client.get("n")))
        with pytest.raises(StaleToken):
            guard.apply(stale, [("INCRBY", "n", 5)])
        guard.apply(fresh, [("SET", "n", read + 1)])
    assert client.get("n") == b"11"


def test_without_a_seal_the_same_write_is_lost(guard: RedisGuard, client: redis.Redis) -> None:
    client.set("n", 10)
    with two_holders("x") as (stale, fresh):
        read = int(cast("bytes", client.get("n")))
        guard.apply(stale, [("INCRBY", "n", 5)])
        guard.apply(fresh, [("SET", "n", read + 1)])
    assert client.get("n") == b"11"  # and the 5 were acknowledged


def test_a_holders_second_write_passes(guard: RedisGuard) -> None:
    with two_holders("x") as (_, fresh):
        guard.seal(fresh)
        assert [guard.apply(fresh, [("INCR", "n")]) for _ in range(3)] == [[1], [2], [3]]


def test_two_equal_tokens_of_two_claims_the_first_shown_stands(guard: RedisGuard) -> None:
    guard.apply(writer(7, A), [("SET", "k", "a")])
    with pytest.raises(StaleToken):
        guard.apply(writer(7, B), [("SET", "k", "b")])
    guard.apply(writer(7, A), [("SET", "k", "a again")])


def test_a_reader_seals_with_its_floor_shows_its_ticket_and_never_raises_the_mark_above(
    guard: RedisGuard, client: redis.Redis
) -> None:
    with lockfast.connect("memory://readers") as engine:
        first, second = reader(engine, "x"), reader(engine, "x")
        assert second.fence_floor == first.ticket < second.ticket
        guard.seal(second)
        assert client.get(MARK) == b"%d " % first.ticket
        guard.apply(first, [("SET", "k", "v")])
        guard.apply(second, [("SET", "k", "v")])
        with pytest.raises(StaleToken):
            guard.apply(writer(first.ticket - 1), [("SET", "k", "v")])
        guard.seal(writer(second.ticket + 1))
        for each in (first, second):
            with pytest.raises(StaleToken):
                guard.apply(each, [("SET", "k", "v")])
            assert each.loss is Loss.FENCED


def test_a_permit_cannot_be_fenced_and_the_error_says_why(guard: RedisGuard) -> None:
    with lockfast.connect("memory://permits") as engine, permit(engine, "x") as lease:
        with pytest.raises(TypeError, match="several can be held at once"):
            guard.seal(lease)
        with pytest.raises(TypeError, match="one mark would reject all but the last"):
            guard.apply(lease, [("SET", "k", "v")])


def test_a_mark_outlives_its_data_and_never_expires(guard: RedisGuard, client: redis.Redis) -> None:
    guard.apply(writer(7), [("SET", "k", "v", "EX", 1), ("DEL", "k")])
    assert client.ttl(MARK) == -1
    with pytest.raises(StaleToken):
        guard.apply(writer(6), [("SET", "k", "v")])


def test_a_garbled_mark_closes_the_door(guard: RedisGuard, client: redis.Redis) -> None:
    client.set(MARK, "1.7631600001235e+15 a")
    with pytest.raises(redis.ResponseError, match="not one of ours: nothing was applied"):
        guard.apply(writer(7), [("SET", "k", "v")])
    assert client.get("k") is None


# --- several commands ---------------------------------------------------------------------------


def test_replies_come_back_as_redis_sends_them(guard: RedisGuard) -> None:
    commands = [("HSET", "h", "f", 1), ("HGETALL", "h"), ("GET", "none"), ("LRANGE", "l", 0, -1)]
    assert guard.apply(writer(7), commands) == [1, [b"f", b"1"], None, []]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ((), r"such as \('SET', 'total', 42\), and this one is empty: nothing was applied"),
        (("FROBNICATE", "k"), "has no command"),
        (("GET", "k", "k2"), "wrong number of arguments"),
        (("SET", "k"), "wrong number of arguments"),
        (("SUBSCRIBE", "channel"), "in scripts"),
        (("RPUSH", "l", *["x"] * 7000), "split it"),
    ],
    ids=["empty", "unknown", "too many", "too few", "not in a script", "too long"],
)
def test_a_mistake_in_the_last_command_is_found_before_the_first_is_applied(
    guard: RedisGuard, client: redis.Redis, wrong: tuple[str, ...], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        guard.apply(writer(7), [("SET", "k", "v"), wrong])
    assert client.get("k") is None


def test_a_long_command_below_the_limit_is_applied(guard: RedisGuard, client: redis.Redis) -> None:
    guard.apply(writer(7), [("RPUSH", "l", *["x"] * 6998)])
    assert client.llen("l") == 6998


def test_a_command_that_fails_for_its_data_stops_the_list_and_the_error_says_where(
    guard: RedisGuard, client: redis.Redis
) -> None:
    client.set("text", "no number")
    with pytest.raises(PartlyApplied, match=r"command 2 for 'x' failed.*not an integer") as caught:
        guard.apply(writer(7), [("SET", "a", 1), ("INCR", "text"), ("SET", "b", 1)])
    assert (caught.value.failed, caught.value.replies) == (1, [b"OK"])
    assert isinstance(caught.value.__cause__, redis.ResponseError)
    assert client.mget("a", "b") == [b"1", None]


def test_the_guard_goes_on_after_redis_forgot_its_scripts(
    guard: RedisGuard, client: redis.Redis
) -> None:
    guard.apply(writer(7), [("INCR", "n")])
    client.script_flush()
    assert guard.apply(writer(7), [("INCR", "n")]) == [2]


# --- names, clients, modes --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["}", "a}b", "{a}b", "a{b", "\0\n", "ü" * 256])
def test_hostile_names_have_marks_of_their_own(guard: RedisGuard, name: str) -> None:
    guard.seal(writer(7, name=name))
    with pytest.raises(StaleToken):
        guard.apply(writer(6, name=name), [("SET", "k", "v")])
    guard.apply(writer(6, name=name + "'"), [("SET", "k", "v")])


def test_a_tag_and_a_name_never_meet_another_pair(client: redis.Redis) -> None:
    RedisGuard(client, tag="a").seal(writer(7, name="b}c"))
    for tag, name in [("a", "b"), ("ab", "}c"), ("a}b"[:1], "c")]:
        RedisGuard(client, tag=tag).seal(writer(6, name=name))
    for tag in ("", "a}"):
        with pytest.raises(ValueError, match="hash tag"):
            RedisGuard(client, tag=tag)


def test_a_client_that_decodes_replies_serves_as_well(server: Redis) -> None:
    with redis.Redis.from_url(server.url, decode_responses=True, protocol=3) as client:
        guard = RedisGuard(client)
        assert guard.apply(writer(7), [("SET", "k", "v"), ("GET", "k")]) == ["OK", "v"]
        with pytest.raises(StaleToken, match="already seen token 7"):
            guard.seal(writer(6))


def test_a_client_of_the_other_mode_is_refused(client: redis.Redis) -> None:
    with pytest.raises(TypeError, match="use AsyncRedisGuard"):
        RedisGuard(redis.asyncio.Redis())
    with pytest.raises(TypeError, match="use RedisGuard"):
        AsyncRedisGuard(client)


def test_in_asyncio_the_body_of_a_refused_holder_ends(server: Redis) -> None:
    async def work() -> None:
        async with (
            redis.asyncio.Redis.from_url(server.url) as client,
            aio.connect(server.url) as engine,
        ):
            guard = AsyncRedisGuard(client)
            async with engine.lock("x") as lease:
                await guard.seal(lease)
                await guard.seal(writer(lease.token + 1))
                with pytest.raises(StaleToken):
                    await guard.apply(lease, [("SET", "k", "v")])
                await asyncio.sleep(30)  # the holder goes on all the same: not for long

    with pytest.raises(LeaseLost, match="higher token"):
        asyncio.run(work())
