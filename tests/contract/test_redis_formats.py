"""Locks that another version of lockfast has stored: they are refused in words, and left alone."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from lockfast.errors import EngineRefused, EngineUnavailable, KindMismatch
from lockfast.port import Kind
from lockfast.testing import Actor, Stage
from lockfast.testing.harness.verbs import acquire, queue, release
from tests.contract.benches import RedisBench
from tests.contract.test_redis_strangers import LOCK, ORDER, RECORDS, TAG, content
from tests.servers import Proxy, Redis
from tests.traps.wire import is_claim, via

ONE, TWO = "1" * 32, "2" * 32
TICKET = 1_700_000_000_000_000
LEFT = 60_000  # ms


class Stored(NamedTuple):
    """What a version of lockfast has written: the lock, and per claim of a queue its record."""

    number: int
    lock: str
    records: tuple[str, ...] = ()


def _state(*fields: object) -> str:
    far = time.time_ns() // 1_000_000 + LEFT
    return " ".join(map(str, ("Q", *fields, TICKET, TICKET + 1, far - LEFT, far + 10_000)))


FORMATS = {
    "a holder of c0ff680": Stored(0, f"{ONE} {TICKET} 1 1 {LEFT} 10000 {{}}"),
    "a holder of c0ff680 without a payload": Stored(0, f"{ONE} {TICKET} 1 1 {LEFT} 10000 "),
    "a writer of c0ff680": Stored(0, f"{ONE} {TICKET} {2**31 - 1} {2**31 - 1} {LEFT} 10000 {{}}"),
    "a queue of c0ff680": Stored(
        0,
        _state(1, 2, 1, 1),
        (f"{TICKET} 1 1 {LEFT} 10000 {{}}", f"{TICKET + 1} 1 1 {LEFT} 10000 {{}}"),
    ),
    "a holder of format 2": Stored(2, f"{ONE} {TICKET} v2 1 1 1 {LEFT} 7 {{}}"),
    "a holder of format 2 with other fields": Stored(2, f"{ONE} {TICKET} v2 lock "),
    "a queue of format 2": Stored(
        2,
        _state("v2", 1, 1, 1),
        (f"{TICKET} v2 1 1 1 {LEFT} {{}}", f"{TICKET + 1} v2 1 1 1 {LEFT} {{}}"),
    ),
    "a holder of format 12": Stored(12, f"{ONE} {TICKET} v12 1 1 1 {LEFT} {{}}"),
}


@pytest.fixture(scope="module")
def bench() -> Iterator[RedisBench]:
    with Redis() as server:
        yield RedisBench(server.url, server)


@pytest.fixture
def server(bench: RedisBench) -> Redis:
    return bench.servers[0]


def _store(server: Redis, stored: Stored) -> None:
    server.command("SET", LOCK, stored.lock, "PX", LEFT)
    server.command("SET", TAG, TICKET + 1)
    far = time.time_ns() // 1_000_000 + LEFT
    for each, (ident, record) in enumerate(zip((ONE, TWO), stored.records, strict=False)):
        server.command("HSET", RECORDS, ident, record)
        server.command("ZADD", ORDER, TICKET + each, ident, -far, f"~{ident}")


def _words(number: int) -> str:
    return rf"'x' is stored in format {number}, .* reads format 1\b"


async def _refused(actor: Actor, number: int) -> None:
    """Claim in every way, and be refused in words each time."""
    for queued in (True, False):
        for kind in (Kind.LOCK, Kind.SEMAPHORE):
            ask = actor.ask(kind=kind, queue=queued, ttl=20)
            for _ in range(2):  # a claim that is sent again gets the same answer
                with pytest.raises(EngineRefused, match=_words(number)):
                    await actor.claim(ask)
            (found,) = await actor.engine.claim_all([ask], actor.deadline)
            assert isinstance(found, EngineRefused)
            assert f"format {number}," in str(found)


@pytest.mark.parametrize("what", FORMATS)
def test_a_lock_in_another_format_is_refused_and_left_alone(
    server: Redis, stage: Stage, what: str
) -> None:
    stored = FORMATS[what]

    async def play() -> None:
        actor = stage.actor()
        _store(server, stored)
        before = content(server)
        await _refused(actor, stored.number)
        with pytest.raises(EngineRefused, match=_words(stored.number)):
            await actor.entries("x")
        assert content(server) == before
        left = server.command("PTTL", LOCK)
        assert isinstance(left, int)
        assert LEFT - 20_000 < left <= LEFT
        server.command("DEL", LOCK)  # it ends, as its state does before its other keys
        assert (await actor.claim(actor.ask(ttl=20))).ticket > TICKET + 1
        assert not (await actor.claim(actor.ask(ttl=20))).granted
        assert len(await actor.entries("x")) == 2

    stage.mode.run(play())


@pytest.mark.parametrize("what", FORMATS)
def test_renewals_and_releases_leave_another_format_alone(
    server: Redis, stage: Stage, what: str
) -> None:
    """The claims were made before, and have expired: another version has the lock now."""
    stored = FORMATS[what]

    async def play() -> None:
        actor = stage.actor()
        mine, other = actor.ask(ttl=20), actor.ask("other", ttl=20)
        await actor.claim(mine)
        await actor.claim(other)
        server.command("DEL", LOCK)
        _store(server, stored)
        before = content(server)
        gone, kept = await actor.renew(mine, other)
        assert gone is None or isinstance(gone, EngineRefused)
        assert getattr(kept, "granted", False)
        if stored.records:
            for doubt in (False, True):
                with pytest.raises(EngineRefused, match=_words(stored.number)):
                    await actor.resign(mine, doubt=doubt)
            for each in await actor.resign(mine, mine):
                assert isinstance(each, EngineRefused)
                assert re.search(_words(stored.number), str(each))
            assert isinstance(gone, EngineRefused)
            assert f"format {stored.number}," in str(gone)
        else:
            assert await actor.resign(mine) == [False]
            assert await actor.resign(mine, mine) == [False, False]
        assert content(server) == before

    stage.mode.run(play())


def test_one_lock_in_another_format_does_not_hide_the_others(server: Redis, stage: Stage) -> None:
    async def play() -> None:
        actor = stage.actor()
        await actor.claim(actor.ask("xy", ttl=20))
        for what in ("a holder of c0ff680", "a queue of format 2"):
            _store(server, FORMATS[what])
            assert [entry.name for entry in await actor.every("x")] == ["xy"]

    stage.mode.run(play())


def test_a_client_says_what_it_has_found_and_works_when_that_is_gone(
    server: Redis, stage: Stage
) -> None:
    async def play() -> None:
        lock = stage.client().lock("x", ttl=5)
        _store(server, FORMATS["a queue of c0ff680"])
        before = content(server)
        for timeout in (0, 1, None):
            with pytest.raises(EngineRefused, match=_words(0)):
                await acquire(lock, timeout)
        with pytest.raises(EngineRefused, match=_words(0)):
            await queue(lock)
        assert content(server) == before
        server.command("DEL", LOCK)
        await release(await acquire(lock, 1))

    stage.mode.run(play())


@pytest.mark.parametrize("waits", [False, True])
def test_a_kind_mismatch_whose_reply_was_lost_is_one_again_and_leaves_nothing(
    server: Redis, stage: Stage, *, waits: bool
) -> None:
    async def play(proxied: Stage, proxy: Proxy) -> None:
        holder, actor = stage.actor(), proxied.actor()
        asks = [holder.ask(ttl=20) for _ in range(1 + waits)]
        for ask in asks:
            await holder.claim(ask)
        await actor.resign(actor.ask("met"))
        before = content(server)
        for queued in (True, False):
            ask = actor.ask(kind=Kind.SEMAPHORE, queue=queued, ttl=20)
            proxy.lose_reply_matching(is_claim)
            with pytest.raises(EngineUnavailable):
                await actor.claim(ask)
            for _ in range(2):
                with pytest.raises(KindMismatch, match=r"as a lock, .* as a semaphore"):
                    await actor.claim(ask)
            assert content(server) == before
        semaphore = proxied.client().semaphore("x", 1, ttl=20)
        proxy.lose_reply_matching(is_claim, 2)
        with pytest.raises(KindMismatch, match=r"as a lock, .* as a semaphore"):
            await acquire(semaphore, 5)
        assert [entry.id for entry in await holder.entries("x")] == [ask.id for ask in asks]
        await holder.resign(*asks)
        await release(await acquire(semaphore, 5))

    with Proxy(server.host, server.port) as proxy:
        proxied = Stage(RedisBench(via(proxy), server), stage.mode)
        stage.mode.run(play(proxied, proxy))
        stage.mode.run(proxied.clear())
