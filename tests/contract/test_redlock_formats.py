"""Locks that another version of lockfast has stored on a majority: refused in words, left alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.engines.redlock import messages
from lockfast.errors import EngineRefused
from lockfast.port import Kind
from lockfast.testing import Stage
from lockfast.testing.harness.verbs import acquire, queue, release
from tests.contract.benches import RedlockBench
from tests.servers import Redis, RedlockSet
from tests.servers.node import text

MARK = messages.mark_key(messages.keys("x").bucket)
LOCK, ROOM, RECORDS = f"{MARK}=x", f"{MARK}>x", f"{MARK}#x"
TOKEN = 1_700_000_000_000_000
LEFT = 60_000  # ms
HELD = f"{'1' * 32} {TOKEN:016d}"
FORMATS = {
    "a holder of c0ff680": (0, f"{HELD} - {LEFT} {{}}"),
    "a holder of c0ff680 with waiters": (0, f"{HELD} W {LEFT} {{}}"),
    "a holder of c0ff680 without a payload": (0, f"{HELD} - {LEFT} "),
    "a reservation of c0ff680": (0, f"R{HELD} - {LEFT} {{}}"),
    "a holder of format 2": (2, f"{HELD} - v2 1 1 1 {LEFT} {{}}"),
    "a holder of format 2 with other fields": (2, f"{HELD} W v2 lock "),
    "a reservation of format 12": (12, f"R{HELD} - v12 1 1 1 {LEFT} {{}}"),
}


@pytest.fixture(scope="module")
def bench() -> Iterator[RedlockBench]:
    with RedlockSet(3) as servers:
        yield RedlockBench(servers)


@pytest.fixture
def nodes(bench: RedlockBench) -> tuple[Redis, ...]:
    return bench.servers


def _words(number: int) -> str:
    return rf"'x' is stored in format {number}, .* reads format 1\b"


def _store(value: str, *nodes: Redis) -> None:
    for node in nodes:
        node.command("SET", LOCK, value, "PX", LEFT)


def _stored(*nodes: Redis) -> list[tuple[str, bool, int]]:
    """Read per node the lock, whether its expiry is unchanged, and the waiters."""
    found = []
    for node in nodes:
        left = node.command("PTTL", LOCK)
        assert isinstance(left, int)
        waiters = node.command("EXISTS", ROOM, RECORDS)
        assert isinstance(waiters, int)
        found.append((text(node.command("GET", LOCK)), LEFT - 20_000 < left <= LEFT, waiters))
    return found


@pytest.mark.parametrize("what", FORMATS)
def test_a_lock_in_another_format_is_refused_and_left_alone(
    nodes: tuple[Redis, ...], stage: Stage, what: str
) -> None:
    number, value = FORMATS[what]

    async def play() -> None:
        actor = stage.actor()
        mine = actor.ask(ttl=20)
        await actor.claim(mine)
        for node in nodes:
            node.command("DEL", LOCK)
        _store(value, *nodes[:2])
        for queued in (True, False):
            ask = actor.ask(ttl=20, queue=queued)
            for _ in range(2):  # a claim that is sent again gets the same answer
                with pytest.raises(EngineRefused, match=_words(number)):
                    await actor.claim(ask)
            await actor.resign(ask, doubt=True)
        assert await actor.renew(mine) == [None]
        assert await actor.resign(mine) == [False]
        assert await actor.entries("x") == []
        assert _stored(*nodes[:2]) == [(value, True, 0)] * 2
        assert nodes[2].command("EXISTS", LOCK) == 0
        for node in nodes[:2]:
            node.command("DEL", LOCK)
        held, waiter = actor.ask(ttl=20), actor.ask(ttl=20)
        assert (await actor.claim(held)).ticket > TOKEN
        assert not (await actor.claim(waiter)).granted
        assert [(e.id, e.kind) for e in await actor.entries("x") if e.granted] == [
            (held.id, Kind.LOCK)
        ]

    stage.mode.run(play())


def test_another_format_on_a_minority_is_in_nobodys_way(
    nodes: tuple[Redis, ...], stage: Stage
) -> None:
    """As after a claim that has lost, or a release that one node has missed."""
    _, value = FORMATS["a holder of c0ff680"]

    async def play() -> None:
        actor = stage.actor()
        _store(value, nodes[0])
        ask = actor.ask(ttl=20)
        assert (await actor.claim(ask)).granted
        assert (await actor.renew_one(ask)).granted
        assert [entry.id for entry in await actor.entries("x")] == [ask.id]
        assert await actor.resign(ask) == [True]
        assert _stored(nodes[0]) == [(value, True, 0)]

    stage.mode.run(play())


def test_one_lock_in_another_format_does_not_hide_the_others(
    nodes: tuple[Redis, ...], stage: Stage
) -> None:
    async def play() -> None:
        actor = stage.actor()
        await actor.claim(actor.ask("xy", ttl=20))
        for _, value in FORMATS.values():
            _store(value, *nodes)
            assert [entry.name for entry in await actor.every("x")] == ["xy"]

    stage.mode.run(play())


def test_a_client_says_what_it_has_found_and_works_when_that_is_gone(
    nodes: tuple[Redis, ...], stage: Stage
) -> None:
    number, value = FORMATS["a holder of c0ff680"]

    async def play() -> None:
        lock = stage.client().lock("x", ttl=5)
        _store(value, *nodes[:2])
        for timeout in (0, 1, None):
            with pytest.raises(EngineRefused, match=_words(number)):
                await acquire(lock, timeout)
        assert await queue(lock) == []
        assert _stored(*nodes[:2]) == [(value, True, 0)] * 2
        for node in nodes[:2]:
            node.command("DEL", LOCK)
        await release(await acquire(lock, 1))

    stage.mode.run(play())
