"""Joining a queue in Redis: the short way (join.lua) does what the general one (queue.lua) does."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from lockfast.engines.redis.keys import keys
from lockfast.engines.redis.scripts import CLAIM
from lockfast.port import LONGEST_WAIT, Ask, Standing
from lockfast.testing import Actor, Stage
from tests.contract.benches import RedisBench, server_of
from tests.servers import Redis
from tests.servers.node import rows, text

TAG = f"lockfast:{{{keys('x').bucket}}}"
LOCK, ORDER, RECORDS = f"{TAG}=x", f"{TAG}>x", f"{TAG}#x"


@pytest.fixture(scope="module")
def bench() -> Iterator[RedisBench]:
    with Redis() as server:
        yield RedisBench(server.url, server)


async def _queue(actor: Actor, count: int, ttl: float = 400) -> list[tuple[Ask, Standing]]:
    asks = [actor.ask(ttl=ttl) for _ in range(count)]
    return [(ask, await actor.claim(ask)) for ask in asks]


def _calls(server: Redis) -> dict[str, int]:
    """Count the commands since the last reset."""
    found = {
        name: re.search(r"calls=(\d+)", said) for name, said in server.info("commandstats").items()
    }
    return {name.removeprefix("cmdstat_"): int(each[1]) for name, each in found.items() if each}


def test_a_claim_behind_waiters_costs_four_writes_and_nine_reads(stage: Stage) -> None:
    """The general way reads the order twice more. A change that closes the short way shows here."""

    async def play() -> None:
        actor, server = stage.actor(), server_of(stage)
        await _queue(actor, 3)
        server.command("CONFIG", "RESETSTAT")
        await _queue(actor, 1)
        calls = _calls(server)
        wanted = (
            "time",
            "mget",
            "zcard",
            "hlen",
            "zrangebyscore",
            "zrange",
            "pttl",
            "hset",
            "zadd",
        )
        assert {name: calls.get(name) for name in wanted} == dict.fromkeys(wanted, 1)
        assert (calls["set"], calls["hget"]) == (2, 2)
        assert not {"pexpireat", "zrevrangebyscore", "zscore", "zrank"} & set(calls)

    stage.mode.run(play())


def test_the_stored_queue_is_that_of_the_general_way(stage: Stage) -> None:
    async def play() -> None:
        actor, server = stage.actor(), server_of(stage)
        before = await _queue(actor, 2)
        kept = text(server.command("GET", LOCK)).split()[-1]
        ((ask, standing),) = await _queue(actor, 1)
        (holder, first), (waiter, second) = before
        state = text(server.command("GET", LOCK)).split()
        assert state[:7] == ["Q", "v1", "1", "1", "1", str(first.ticket), str(standing.ticket)]
        assert state[8] == kept
        life = min(ask.shape.ttl, LONGEST_WAIT)
        expires = int(state[7]) + round(life * 1000)
        order = [text(each) for each in rows(server.command("ZRANGE", ORDER, "0", "-1"))]
        assert set(order[:3]) == {f"~{each.id}" for each in (holder, waiter, ask)}
        assert order[3:] == [holder.id, waiter.id, ask.id]
        assert int(text(server.command("ZSCORE", ORDER, f"~{ask.id}"))) == -expires
        assert int(text(server.command("ZSCORE", ORDER, ask.id))) == standing.ticket
        record = text(server.command("HGET", RECORDS, ask.id))
        assert record.startswith(f"{standing.ticket} v1 1 1 1 {round(ask.shape.ttl * 1000)} ")
        assert text(server.command("GET", TAG)) == str(standing.ticket)
        assert not standing.granted
        assert (standing.ahead, standing.behind, standing.floor) == (2, 0, first.ticket)
        assert standing.recheck is None
        assert standing.left == pytest.approx(life, abs=0.01)
        assert standing.blocker is not None
        assert second.blocker is not None
        assert standing.blocker == second.blocker
        assert standing.blocker.id == holder.id
        again = await actor.claim(ask)  # in the general way, since the claim is there
        assert (again.ticket, again.granted, again.ahead) == (standing.ticket, False, 2)
        assert len(rows(server.command("ZRANGE", ORDER, "0", "-1"))) == 6

    stage.mode.run(play())


@pytest.mark.parametrize("ttl", [5, 60])
def test_the_lock_lives_as_long_as_every_claim(stage: Stage, ttl: float) -> None:
    """A state that ends before a claim would end the claim."""

    async def play() -> None:
        actor, server = stage.actor(), server_of(stage)
        await _queue(actor, 1, ttl=ttl)
        for _ in range(3):
            await _queue(actor, 1)
            latest = -int(text(rows(server.command("ZRANGE", ORDER, "0", "0", "WITHSCORES"))[1]))
            ends = [server.command("PEXPIRETIME", key) for key in (LOCK, ORDER, RECORDS)]
            assert all(isinstance(end, int) and end >= latest for end in ends), (latest, ends)

    stage.mode.run(play())


def test_a_waiter_that_expired_is_removed_by_the_next_one(stage: Stage) -> None:
    """The short way does not count expired claims as claims ahead."""

    async def play() -> None:
        actor, server = stage.actor(), server_of(stage)
        _, (gone, _), _ = await _queue(actor, 3)
        server.command("ZADD", ORDER, "-5", f"~{gone.id}")
        ((_, standing),) = await _queue(actor, 1)
        assert standing.ahead == 2
        assert server.command("HGET", RECORDS, gone.id) is None

    stage.mode.run(play())


def test_numbers_are_written_with_all_their_digits(bench: RedisBench) -> None:
    """In parts of nine digits at most: trap 53, and servers of 32 bits."""
    start = CLAIM.source.index(b"local function digits(")
    source = CLAIM.source[start : CLAIM.source.index(b"\nend\n", start) + 5].decode()
    numbers = [0, 7, 10_000_001, 1_763_469_491_000, 2**31, 2**32, 2**53 - 1]
    numbers += [10**k - 1 for k in range(1, 16)] + [10**k for k in range(1, 16)]
    each = "local all = {} for i, n in ipairs(ARGV) do all[i] = digits(tonumber(n)) end return all"
    for sign in (1, -1):
        words = [str(sign * number) for number in numbers]
        found = bench.servers[0].command("EVAL", f"{source} {each}", "0", *words)
        assert [text(word) for word in rows(found)] == words
