"""The port's contract on `resign` and `abandon`: final for an id, and wakes whom it lets in."""

from __future__ import annotations

from lockfast.port import SHARED, Wake
from lockfast.testing.stage import Contract, Stage, driven


class ResignContract(Contract):
    """A resignation removes for good."""

    @driven
    async def test_a_resignation_is_true_once(self, stage: Stage) -> None:
        actor = stage.actor()
        ask = actor.ask()
        await actor.claim(ask)
        assert await actor.resign(ask) == [True]
        assert await actor.resign(ask) == [False]
        assert await actor.entries("x") == []

    @driven
    async def test_a_waiters_resignation_is_true_once_too(self, stage: Stage) -> None:
        actor = stage.actor()
        holder, waiter = actor.ask(), actor.ask()
        await actor.claim(holder)
        await actor.claim(waiter)
        assert await actor.resign(waiter) == [True]
        assert await actor.resign(waiter) == [False]
        assert [entry.id for entry in await actor.entries("x")] == [holder.id]

    @driven
    async def test_many_are_resigned_in_one_call_and_answered_in_order(self, stage: Stage) -> None:
        actor, other = stage.actor(), stage.actor()
        taken = other.ask("taken")
        await other.claim(taken)
        asks = [actor.ask(f"name {number}") for number in range(30)]
        asks += [actor.ask("name 7"), actor.ask("name 7")]
        for ask in asks:
            await actor.claim(ask)
        never = [actor.ask("name 3"), actor.ask("taken"), actor.ask("free")]
        order = [never[0], *asks[:15], never[1], *asks[15:], never[2]]
        expected = [ask not in never for ask in order]
        assert await actor.resign(*order) == expected
        assert [entry.id for entry in await other.every("")] == [taken.id]

    @driven
    async def test_nothing_to_resign_is_fine(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.claim(actor.ask())
        assert await actor.resign() == []

    @driven
    async def test_a_copy_that_arrives_after_a_resignation_in_doubt_stays_dead(
        self, stage: Stage
    ) -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=5)
        assert await actor.resign(ask, doubt=True) == [False]
        assert await actor.is_dead(ask)
        await stage.advance(4.5)  # shortly before not_after
        assert await actor.is_dead(ask)
        await stage.advance(2)
        assert await actor.is_dead(ask)
        assert await actor.entries("x") == []

    @driven
    async def test_a_second_copy_stays_dead_though_the_first_had_arrived(
        self, stage: Stage
    ) -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=5)
        await actor.claim(ask)
        assert await actor.resign(ask, doubt=True) == [True]
        assert await actor.is_dead(ask)
        await stage.advance(4.5)
        assert await actor.is_dead(ask)
        assert await actor.entries("x") == []

    @driven
    async def test_a_copy_stays_dead_in_a_queue_too(self, stage: Stage) -> None:
        actor = stage.actor()
        holder, waiter, absent = actor.ask(), actor.ask(), actor.ask()
        await actor.claim(holder)
        await actor.claim(waiter)
        assert await actor.resign(waiter, absent, doubt=True) == [True, False]
        assert await actor.is_dead(waiter)
        assert await actor.is_dead(absent)
        assert [entry.id for entry in await actor.entries("x")] == [holder.id]

    @driven
    async def test_a_resignation_without_doubt_leaves_no_tombstone(self, stage: Stage) -> None:
        actor = stage.actor()
        ask = actor.ask()
        await actor.claim(ask)
        await actor.resign(ask)
        assert (await actor.claim(ask)).granted

    @driven
    async def test_a_tombstone_is_of_one_id_alone(self, stage: Stage) -> None:
        actor = stage.actor()
        dead, alive = actor.ask(), actor.ask()
        await actor.resign(dead, doubt=True)
        assert (await actor.claim(alive)).granted

    @driven
    async def test_an_abandoned_claim_can_still_be_resigned(self, stage: Stage) -> None:
        actor = stage.actor()
        asks = [actor.ask(), actor.ask("unknown")]
        actor.engine.abandon(asks)  # never raises, also before anything was opened
        await actor.claim(asks[0])
        actor.engine.abandon(asks)
        await actor.resign(*asks, doubt=True)
        assert await actor.is_dead(asks[0])
        assert await actor.entries("x") == []


class WakeContract(Contract):
    """A resignation wakes exactly the claims that may now be granted."""

    @driven
    async def test_the_next_in_line_is_woken_and_nobody_else(self, stage: Stage) -> None:
        actors = [stage.actor() for _ in range(3)]
        for actor in actors:
            await actor.attend()
        asks = [actor.ask() for actor in actors]
        standings = [await actor.claim(ask) for actor, ask in zip(actors, asks, strict=True)]
        await actors[0].resign(asks[0])
        (wake,) = await actors[1].wakes(1)
        assert wake == Wake(asks[1].id, granted=True, floor=standings[1].ticket)
        assert await actors[2].wakes(0) == []
        assert await actors[0].wakes(0) == []

    @driven
    async def test_a_writer_wakes_all_readers_up_to_the_next_writer(self, stage: Stage) -> None:
        holder, reader, writer = stage.actor(), stage.actor(), stage.actor()
        for actor in (reader, writer):
            await actor.attend()
        first = holder.ask(capacity=SHARED, weight=SHARED)
        await holder.claim(first)
        readers = [reader.ask(capacity=SHARED) for _ in range(3)]
        floors = [(await reader.claim(ask)).ticket for ask in readers]
        await writer.claim(writer.ask(capacity=SHARED, weight=SHARED))
        await reader.claim(reader.ask(capacity=SHARED))  # behind the writer
        await holder.resign(first)
        wakes = await reader.wakes(3)
        assert sorted(wake.id for wake in wakes) == sorted(ask.id for ask in readers)
        assert {wake.floor for wake in wakes} == {floors[0]}
        assert await reader.wakes(0) == []
        assert await writer.wakes(0) == []

    @driven
    async def test_a_waiter_that_leaves_wakes_whom_it_held_up(self, stage: Stage) -> None:
        actor, other = stage.actor(), stage.actor()
        await other.attend()
        holder, heavy = actor.ask(capacity=2), actor.ask(capacity=2, weight=2)
        light = [other.ask(capacity=2) for _ in range(2)]
        for who, ask in [(actor, holder), (actor, heavy), (other, light[0]), (other, light[1])]:
            await who.claim(ask)
        await actor.resign(heavy)
        assert [wake.id for wake in await other.wakes(1)] == [light[0].id]
        assert await other.wakes(0) == []

    @driven
    async def test_a_waiter_that_leaves_wakes_nobody_whom_it_did_not_hold_up(
        self, stage: Stage
    ) -> None:
        actor = stage.actor()
        await actor.attend()
        asks = [actor.ask() for _ in range(3)]
        for ask in asks:
            await actor.claim(ask)
        await actor.resign(asks[1])
        await actor.resign(actor.ask(), actor.ask("unknown"), doubt=True)
        assert await actor.wakes(0) == []

    @driven
    async def test_a_listener_returns_at_its_deadline(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.attend()
        await actor.wakes(0)  # what the subscription has left
        before = stage.bench.now()
        assert await actor.engine.listen(before + 0.1) == []
        assert 0.05 < stage.bench.now() - before < 5.0
        assert await actor.engine.listen(before) == []  # a deadline in the past is no wait

    @driven
    async def test_a_listener_is_roused(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.attend()
        await actor.wakes(0)
        job = stage.colour.start(actor.engine.listen(None))
        await stage.colour.sleep(0.05)
        assert not job.done()
        actor.engine.rouse()
        assert await job.result() == []
        actor.engine.rouse()  # a rouse with nobody asleep ends the next sleep, or does nothing
        await actor.engine.listen(stage.bench.now() + 0.1)
