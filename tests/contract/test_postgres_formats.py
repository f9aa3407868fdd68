"""Claims of other formats and of other kinds on PostgreSQL: refused, and left as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lockfast import EngineRefused, EngineUnavailable, KindMismatch
from lockfast.core.record import FORMAT
from lockfast.engines.postgres import install
from lockfast.port import SHARED, Ask, Kind, Shape, Standing
from lockfast.testing import Stage
from lockfast.testing.harness.stage import Actor
from lockfast.testing.harness.verbs import acquire, release
from tests.contract.benches import PostgresBench
from tests.servers import Postgres, ServerClock

# A holder and a waiter, as the functions of that format leave them.
STORE = """
INSERT INTO lockfast.claim
  (id, b, name, ticket, waits, capacity, weight, ttl, wait_ttl, expires, place, claims, waiting,
   held, payload, kind)
SELECT 'stranger' || i, lockfast.bucket_v1('x'), 'x', i, i = 2, 1, 1, 5000000, 5000000,
  lockfast.micros_v1() + 5000000, i, i, i - 1, 1, '', {kind}
FROM generate_series(1, 2) i
"""
STORED = "SELECT c::text FROM lockfast.claim c WHERE c.name = 'x' ORDER BY c.ticket"
KINDS = {0: 0, 2: 201}
"""Formats, and a kind that their rows have."""


@pytest.fixture(scope="module")
def bench() -> Iterator[PostgresBench]:
    clock = ServerClock()
    with Postgres(env=clock.env, config={"fsync": "off"}) as server:
        install(server.url)
        yield PostgresBench(server, clock=clock)


def stored(bench: PostgresBench) -> list[tuple[Any, ...]]:
    return bench.server.command(STORED)


def names_both(error: object, other: int) -> bool:
    return isinstance(error, EngineRefused) and all(
        f"format {number}" in str(error) for number in (other, FORMAT)
    )


def stranger(actor: Actor, number: int) -> Ask:
    """Give a claim with the id of one that is stored."""
    shape = Shape("x", 5.0)
    return Ask(f"stranger{number}", shape, queue=True, not_after=actor.deadline, payload=b"")


@pytest.mark.parametrize("other", KINDS)
def test_what_is_stored_in_another_format_is_refused_and_stays(
    bench: PostgresBench, stage: Stage, other: int
) -> None:
    async def play() -> None:
        actor = stage.actor()
        await actor.claim(actor.ask("xy"))
        bench.server.command(STORE.format(kind=KINDS[other]))
        before = stored(bench)
        for kind in Kind:
            for queued in (True, False):
                size = SHARED if kind is Kind.READ_WRITE else 1
                ask = actor.ask(kind=kind, capacity=size, queue=queued)
                for _ in range(2):  # the second time as after a lost reply
                    with pytest.raises(EngineRefused) as caught:
                        await actor.claim(ask)
                    assert names_both(caught.value, other)
        free, taken = actor.ask("free", queue=False), actor.ask(queue=False)
        found = await actor.engine.claim_all([free, taken], actor.deadline)
        assert getattr(found[0], "granted", False)
        assert names_both(found[1], other)
        for number in (1, 2):
            with pytest.raises(EngineRefused):
                await actor.claim(stranger(actor, number))
            (renewed,) = await actor.renew(stranger(actor, number))
            assert names_both(renewed, other)
            for doubt in (False, True):
                assert await actor.resign(stranger(actor, number), doubt=doubt) == [False]
        with pytest.raises(EngineRefused) as caught:
            await actor.entries("x")
        assert names_both(caught.value, other)
        assert [entry.name for entry in await actor.every("x")] == ["xy"]
        assert stored(bench) == before

    stage.mode.run(play())


def test_a_name_is_free_once_the_claims_of_format_0_have_expired(
    bench: PostgresBench, stage: Stage
) -> None:
    async def play() -> None:
        actor = stage.actor()
        bench.server.command(STORE.format(kind=0))
        bench.server.command(
            "UPDATE lockfast.claim SET expires = expires - 3000000 WHERE NOT waits"
        )
        await stage.advance(2.5)
        # The holder has expired. Its successor in format 0 is not granted, as it could not renew.
        with pytest.raises(EngineRefused):
            await actor.claim(actor.ask())
        assert bench.server.command("SELECT id, waits FROM lockfast.claim") == [("stranger2", True)]
        await stage.advance(3)
        standing = await actor.claim(actor.ask())
        assert standing.granted
        assert standing.ahead == 0
        assert len(stored(bench)) == 1

    stage.mode.run(play())


def test_a_name_is_free_once_the_claims_of_a_later_format_are_gone_and_only_then(
    bench: PostgresBench, stage: Stage
) -> None:
    async def play() -> None:
        actor = stage.actor()
        bench.server.command(STORE.format(kind=KINDS[2]))
        before = stored(bench)
        await stage.advance(60)  # who knows what an expiry means there
        with pytest.raises(EngineRefused):
            await actor.claim(actor.ask())
        assert stored(bench) == before
        bench.server.command("DELETE FROM lockfast.claim")
        assert (await actor.claim(actor.ask())).granted

    stage.mode.run(play())


@pytest.mark.parametrize("other", KINDS)
def test_a_holder_keeps_its_lease_though_another_format_is_behind_it(
    bench: PostgresBench, stage: Stage, other: int
) -> None:
    async def play() -> None:
        actor = stage.actor()
        holder, waiter = actor.ask(ttl=3), actor.ask(ttl=3)
        await actor.claim(holder)
        await actor.claim(waiter)
        bench.server.command(
            STORE.format(kind=KINDS[other])
            .replace("'x', i, i = 2", "'x', 2^53::bigint - 10 + i, true")
            .replace("i, i, i - 1, 1, ''", "i + 2, i + 2, i + 1, 1, ''")
        )
        before = stored(bench)[2:]
        for _ in range(2):
            await stage.advance(2)
            assert (await actor.renew_one(holder)).granted
            assert not (await actor.renew_one(waiter)).granted
        assert stored(bench)[2:] == before
        await actor.resign(holder)
        if other == 0:  # what a later format does with the totals in its row, nobody knows
            assert (await actor.renew_one(waiter)).granted
        with pytest.raises(EngineRefused):
            await actor.claim(actor.ask())

    stage.mode.run(play())


@pytest.mark.parametrize("queued", [True, False])
def test_a_claim_of_another_kind_that_is_sent_again_is_refused_again_and_leaves_nothing(
    bench: PostgresBench, stage: Stage, *, queued: bool
) -> None:
    async def play() -> None:
        actor, other = stage.actor(), stage.actor()
        holder = actor.ask()
        await actor.claim(holder)
        before = stored(bench)
        late = other.ask(kind=Kind.SEMAPHORE, queue=queued)
        for _ in range(3):
            with pytest.raises(KindMismatch):
                await other.claim(late)
            (found,) = await other.engine.claim_all([late], other.deadline)
            assert isinstance(found, KindMismatch)
        assert stored(bench) == before
        await actor.resign(holder)
        assert (await other.claim(late)).granted  # nothing forbids its id

    stage.mode.run(play())


def test_a_client_whose_reply_was_lost_gets_the_kind_mismatch_by_its_next_copy(
    bench: PostgresBench, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        client = stage.client()
        shaky, way = stage.shaky_client()
        lease = await acquire(client.lock("x", ttl=9))
        asked, answering = [], way.claim

        async def lose_the_first(ask: Ask, deadline: float) -> Standing | None:
            asked.append(ask.id)
            try:
                return await answering(ask, deadline)
            except KindMismatch:
                if len(asked) > 1:
                    raise
                raise EngineUnavailable("the test has lost the reply", sent=True) from None

        monkeypatch.setattr(way, "claim", lose_the_first)
        with pytest.raises(KindMismatch) as caught:
            await acquire(shaky.semaphore("x", 1, ttl=9), 5)
        assert (caught.value.asked, caught.value.ruling) == ("semaphore", "lock")
        assert len(asked) == 2
        assert bench.server.command("SELECT id FROM lockfast.claim") == [(lease.id,)]
        await release(lease)

    stage.mode.run(play())
