"""The port's contract on expiry: the engine deletes an expired claim, which never comes back."""

from __future__ import annotations

import time

from lockfast.testing.harness.stage import Contract, Stage, driven


class ExpiryContract(Contract):
    """Claims expire by the engine's clock, and an expired claim never comes back."""

    @driven
    async def test_a_holder_that_died_blocks_for_its_ttl_and_no_longer(self, stage: Stage) -> None:
        actor, other = stage.actor(), stage.actor()
        dead, waiter = actor.ask(ttl=3), other.ask(ttl=8)
        await actor.claim(dead)
        assert not (await other.claim(waiter)).granted
        await stage.advance(2)
        assert not (await other.renew_one(waiter)).granted
        await stage.advance(1.5)
        standing, end = await other.renew_one(waiter), time.monotonic() + stage.bench.lag
        while not standing.granted and time.monotonic() < end:
            await stage.mode.sleep(0.5)  # short, because the waiter must be renewed meanwhile
            standing = await other.renew_one(waiter)
        assert (standing.granted, standing.ahead, standing.blocker) == (True, 0, None)
        assert 7 < stage.units(standing.left) <= 8
        assert await actor.renew(dead) == [None]
        assert await actor.resign(dead) == [False]

    @driven
    async def test_an_expired_claim_is_gone_for_a_newcomer(self, stage: Stage) -> None:
        actor = stage.actor()
        first = await actor.claim(actor.ask(ttl=2))
        await stage.advance(2.5)
        second = await actor.claim(actor.ask(queue=False))
        assert (second.granted, second.ahead) == (True, 0)
        assert second.ticket > first.ticket

    @driven
    async def test_an_id_that_was_pruned_stays_dead(self, stage: Stage) -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=2)
        await actor.claim(ask)
        await stage.advance(2.5)
        assert await actor.is_dead(ask)
        assert await actor.entries("x") == []


class StepBackContract(Contract):
    """For engines whose clock a test can move back: what a step back must not do."""

    @driven
    async def test_a_clock_that_goes_back_brings_no_dead_holder_to_life(self, stage: Stage) -> None:
        actor = stage.actor()
        dead, waiter = actor.ask(ttl=3), actor.ask(ttl=8)
        await actor.claim(dead)
        await actor.claim(waiter)
        await stage.advance(3.5)
        assert (await actor.renew_one(waiter)).granted
        stage.bench.rewind(2.0)
        assert await actor.renew(dead) == [None]
        assert (await actor.renew_one(waiter)).granted
        assert [entry.id for entry in await actor.entries("x")] == [waiter.id]

    @driven
    async def test_a_copy_stays_dead_though_the_engines_clock_was_misread_since_it_was_sent(
        self, stage: Stage
    ) -> None:
        actor = stage.actor()
        ask, one_of_many, other = actor.ask(), actor.ask("many"), actor.ask("other")
        await actor.claim(ask)
        await actor.engine.claim_all([one_of_many], actor.deadline)
        stage.bench.ahead += 20.0  # the next reply tells the server's time, and is read 20 s late
        await actor.renew(other)
        stage.bench.ahead -= 20.0
        await actor.resign(ask, one_of_many, doubt=True)
        await stage.advance(2.0)
        await actor.renew(other)  # this reply is read at once
        assert await actor.is_dead(ask)
        assert await actor.is_dead(one_of_many)

    @driven
    async def test_tickets_increase_though_the_clock_goes_back(self, stage: Stage) -> None:
        actor = stage.actor()
        tickets = []
        for _ in range(5):
            ask = actor.ask()
            tickets.append((await actor.claim(ask)).ticket)
            await actor.resign(ask)
            stage.bench.rewind(100.0)
        assert tickets == sorted(set(tickets))

    @driven
    async def test_after_a_step_back_a_lone_dead_holder_blocks_for_one_ttl_and_no_longer(
        self, stage: Stage
    ) -> None:
        actor = stage.actor()
        await actor.claim(actor.ask(ttl=3))
        stage.bench.rewind(100.0)
        standing = await actor.claim(actor.ask(ttl=9))
        assert standing.recheck is not None
        assert standing.recheck <= 3.05
