"""The port's contract on `resign` and `abandon`, which end an id for good, and on `listen`."""

from __future__ import annotations

from lockfast.testing.harness.stage import Contract, Stage, driven


class ResignContract(Contract):
    """A resignation removes a claim for good."""

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
    async def test_whoever_knows_the_id_can_break_anothers_claim_for_good(
        self, stage: Stage
    ) -> None:
        actor, other = stage.actor(), stage.actor()
        ask = actor.ask(ttl=20)
        await actor.claim(ask)
        (entry,) = await other.entries("x")
        copy = other.ask(entry.name, kind=entry.kind, capacity=entry.capacity, weight=entry.weight)
        copy.id = entry.id
        assert await other.resign(copy, doubt=True) == [True]
        assert await other.resign(copy, doubt=True) == [False]
        assert await other.entries("x") == []
        assert await actor.renew(ask) == [None]
        assert await actor.resign(ask) == [False]

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
        actor.engine.abandon(asks)  # never raises, even before the engine has connected
        await actor.claim(asks[0])
        actor.engine.abandon(asks)
        await actor.resign(*asks, doubt=True)
        assert await actor.is_dead(asks[0])
        assert await actor.entries("x") == []


class ListenContract(Contract):
    """A listener sleeps until a push, a `rouse` or its deadline."""

    @driven
    async def test_a_listener_returns_at_its_deadline(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.attend()
        await actor.wakes(0)  # drops what the subscription has pushed
        before = stage.bench.now()
        assert await actor.engine.listen(before + 0.1) == []
        assert 0.05 < stage.bench.now() - before < 5.0
        assert await actor.engine.listen(before) == []  # a deadline in the past returns at once

    @driven
    async def test_a_listener_is_roused(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.attend()
        await actor.wakes(0)
        job = stage.mode.start(actor.engine.listen(None))
        await stage.mode.sleep(0.05)
        assert not job.done()
        actor.engine.rouse()
        assert await job.result() == []
        actor.engine.rouse()  # a rouse with nobody asleep ends the next sleep, or does nothing
        await actor.engine.listen(stage.bench.now() + 0.1)
