"""The port's contract on time: expiry is deletion, and what a promoted waiter has left."""

from __future__ import annotations

import pytest

from lockfast.errors import CapacityMismatch
from lockfast.testing.stage import Contract, Stage, driven


class ExpiryContract(Contract):
    """The engine's clock decides, and nothing that is over comes back."""

    @driven
    async def test_a_holder_that_died_blocks_for_its_ttl_and_no_longer(self, stage: Stage) -> None:
        actor, other = stage.actor(), stage.actor()
        dead, waiter = actor.ask(ttl=3), other.ask(ttl=8)
        await actor.claim(dead)
        assert not (await other.claim(waiter)).granted
        await stage.advance(2)
        assert not (await other.renew_one(waiter)).granted
        await stage.advance(1.5)
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

    @driven
    async def test_a_waiter_that_died_leaves_the_queue(self, stage: Stage) -> None:
        actor = stage.actor()
        holder, dead, waiter = actor.ask(ttl=8), actor.ask(ttl=3), actor.ask(ttl=8)
        for ask in (holder, dead, waiter):
            await actor.claim(ask)
        assert (await actor.renew_one(holder)).behind == 2
        await stage.advance(3.5)
        assert (await actor.renew_one(holder)).behind == 1
        assert (await actor.renew_one(waiter)).ahead == 1
        assert await actor.renew(dead) == [None]
        await actor.resign(holder)
        assert (await actor.renew_one(waiter)).granted

    @driven
    async def test_a_refused_newcomer_finds_the_dead_gone_and_the_queue_in_order(
        self, stage: Stage
    ) -> None:
        # The look of a claim that is not kept prunes, and what is left must still add up.
        actor = stage.actor()
        asks = [actor.ask(ttl=ttl, capacity=2) for ttl in (2, 8, 8, 8)]
        for ask in asks:
            await actor.claim(ask)
        await stage.advance(2.5)
        assert not (await actor.claim(actor.ask(capacity=2, queue=False))).granted
        granted = [(await actor.renew_one(ask)).granted for ask in asks[1:]]
        assert granted == [True, True, False]
        await actor.resign(asks[1])
        assert (await actor.renew_one(asks[3])).granted

    @driven
    async def test_a_granted_waiter_has_only_its_waiting_time_until_it_renews(
        self, stage: Stage
    ) -> None:
        actor = stage.actor()
        ttl = 12 / stage.bench.unit  # 12 seconds: a waiter lives on 10 at most
        holder, waiter = actor.ask(), actor.ask(ttl=ttl)
        await actor.claim(holder)
        await actor.claim(waiter)
        await actor.resign(holder)
        standing = await actor.claim(waiter)
        assert standing.granted
        assert 8.0 < standing.left <= 10.0
        assert 11.0 < (await actor.renew_one(waiter)).left <= 12.0

    @driven
    async def test_a_granted_waiter_that_died_does_not_block_for_a_whole_ttl(
        self, stage: Stage
    ) -> None:
        actor = stage.actor()
        holder, dead, last = actor.ask(ttl=8), actor.ask(ttl=3), actor.ask(ttl=8)
        for ask in (holder, dead, last):
            await actor.claim(ask)
        await stage.advance(2)
        await actor.renew_one(last)
        await actor.resign(holder)
        await stage.advance(1.5)
        assert (await actor.renew_one(last)).granted

    @driven
    async def test_the_look_that_finds_the_dead_wakes_whom_that_lets_in(self, stage: Stage) -> None:
        actor, waiting = stage.actor(), stage.actor()
        await waiting.attend()
        await actor.claim(actor.ask(ttl=2))
        waiter = waiting.ask(ttl=8)
        await waiting.claim(waiter)
        await stage.advance(2.5)
        newcomer = await actor.claim(actor.ask())
        assert (newcomer.granted, newcomer.ahead) == (False, 1)
        assert [wake.id for wake in await waiting.wakes(1)] == [waiter.id]

    @driven
    async def test_a_claim_refused_for_its_capacity_still_wakes_whom_its_look_lets_in(
        self, stage: Stage
    ) -> None:
        actor, waiting = stage.actor(), stage.actor()
        await waiting.attend()
        await actor.claim(actor.ask(ttl=2))
        waiter = waiting.ask(ttl=8)
        await waiting.claim(waiter)
        await stage.advance(2.5)
        with pytest.raises(CapacityMismatch):
            await actor.claim(actor.ask(capacity=2))
        assert [wake.id for wake in await waiting.wakes(1)] == [waiter.id]

    @driven
    async def test_the_first_in_line_is_let_in_when_it_was_told_to_look(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.claim(actor.ask(ttl=3))
        waiter = actor.ask(ttl=8)
        recheck = (await actor.claim(waiter)).recheck
        assert recheck is not None
        await stage.advance(stage.units(recheck + 0.002))
        assert (await actor.renew_one(waiter)).granted

    @driven
    async def test_one_expiry_lets_in_as_many_as_fit(self, stage: Stage) -> None:
        actor = stage.actor()
        heavy = actor.ask(ttl=2, capacity=3, weight=3)
        light = [actor.ask(ttl=8, capacity=3) for _ in range(4)]
        for ask in [heavy, *light]:
            await actor.claim(ask)
        await stage.advance(2.5)
        standings = [await actor.renew_one(ask) for ask in light]
        assert [standing.granted for standing in standings] == [True, True, True, False]
        assert [standing.ahead for standing in standings] == [0, 1, 2, 3]


class ClockContract(Contract):
    """For engines whose clock can be moved back by a test: what a step back must not do."""

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
        ask, other = actor.ask(), actor.ask("other")
        await actor.claim(ask)
        stage.bench.ahead += 20.0  # a reply that tells the time is read that late
        await actor.renew(other)
        stage.bench.ahead -= 20.0
        await actor.resign(ask, doubt=True)
        await stage.advance(2.0)
        await actor.renew(other)  # this one is read at once
        assert await actor.is_dead(ask)

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
    async def test_after_a_step_back_a_dead_holder_blocks_for_one_ttl_and_no_longer(
        self, stage: Stage
    ) -> None:
        actor = stage.actor()
        dead, long, waiter = (
            actor.ask(ttl=ttl, capacity=2, weight=weight)
            for ttl, weight in [(3, 1), (9, 1), (9, 2)]
        )
        for ask in (dead, long, waiter):
            await actor.claim(ask)
        stage.bench.rewind(4.0)
        standing = await actor.renew_one(waiter)
        assert standing.recheck is not None
        assert standing.recheck <= 3.05

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
