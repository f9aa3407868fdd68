"""The port's contract on capacity: permits, readers and writers, and which claims fit together."""

from __future__ import annotations

from itertools import permutations

import pytest

from lockfast.errors import KindMismatch
from lockfast.port import SHARED, Kind
from lockfast.testing.contract.port.expiry import StepBackContract
from lockfast.testing.harness.stage import ROUNDING, Contract, Stage, driven


class SharingContract(Contract):
    """For engines that let several claims hold a name at once: all but Redlock."""

    @driven
    async def test_a_light_claim_does_not_overtake_a_heavy_one(self, stage: Stage) -> None:
        actor = stage.actor()
        weights = [2, 2, 3, 1]  # 2 + 2 + 1 would fit into 5, but the 3 came first
        asks = [actor.ask(capacity=5, weight=weight) for weight in weights]
        granted = [(await actor.claim(ask)).granted for ask in asks]
        assert granted == [True, True, False, False]
        await actor.resign(asks[0])
        assert [(await actor.renew_one(ask)).granted for ask in asks[1:]] == [True, True, False]
        await actor.resign(asks[1])
        assert [(await actor.renew_one(ask)).granted for ask in asks[2:]] == [True, True]

    @driven
    async def test_a_sharer_has_the_oldest_live_claim_as_its_floor(self, stage: Stage) -> None:
        actor = stage.actor()
        asks = [actor.ask(capacity=3) for _ in range(3)]
        standings = [await actor.claim(ask) for ask in asks]
        assert [s.granted for s in standings] == [True] * 3
        assert [s.floor for s in standings] == [standings[0].ticket] * 3
        assert [s.ahead for s in standings] == [0, 1, 2]
        await actor.resign(asks[0])
        assert (await actor.renew_one(asks[2])).floor == standings[1].ticket

    @driven
    async def test_a_sharer_that_is_granted_at_once_has_its_whole_ttl(self, stage: Stage) -> None:
        actor = stage.actor()
        for _ in range(3):
            standing = await actor.claim(actor.ask(ttl=12 / stage.bench.unit, capacity=3))
            assert standing.granted
            assert 11.0 < standing.left < 12.0 + ROUNDING  # a waiter would have ten

    @driven
    async def test_readers_do_not_overtake_a_waiting_writer(self, stage: Stage) -> None:
        actor = stage.actor()
        weights = [1, 1, SHARED, 1, 1]
        asks = [actor.ask(capacity=SHARED, weight=weight) for weight in weights]
        granted = [(await actor.claim(ask)).granted for ask in asks]
        assert granted == [True, True, False, False, False]
        await actor.resign(*asks[:2])
        assert [(await actor.renew_one(a)).granted for a in asks[2:]] == [True, False, False]
        await actor.resign(asks[2])
        assert [(await actor.renew_one(ask)).granted for ask in asks[3:]] == [True, True]

    @pytest.mark.parametrize(("kind", "other"), list(permutations(Kind, 2)))
    @driven
    async def test_a_claim_of_another_kind_is_refused(
        self, stage: Stage, kind: Kind, other: Kind
    ) -> None:
        actor = stage.actor()
        whole = SHARED if kind is Kind.READ_WRITE else 1
        size = SHARED if other is Kind.READ_WRITE else 1
        holder = actor.ask(kind=kind, capacity=whole, weight=whole)
        waiter = actor.ask(kind=kind, capacity=whole)
        await actor.claim(holder)
        for queued in (True, False):
            with pytest.raises(KindMismatch) as caught:
                await actor.claim(actor.ask(kind=other, capacity=size, queue=queued))
            assert (caught.value.asked, caught.value.ruling) == (other.words, kind.words)
            await actor.claim(waiter)  # the second newcomer finds a queue, and gets the same error
        assert [entry.id for entry in await actor.entries("x")] == [holder.id, waiter.id]
        assert {entry.kind for entry in await actor.entries("x")} == {kind}
        assert (await actor.renew_one(holder)).behind == 1
        await actor.resign(holder, waiter)
        assert (await actor.claim(actor.ask(kind=other, capacity=size))).granted

    @driven
    async def test_each_claim_is_granted_by_its_own_capacity(self, stage: Stage) -> None:
        actor = stage.actor()
        five = [actor.ask(capacity=5) for _ in range(5)]
        assert all([(await actor.claim(ask)).granted for ask in five])
        eight = [actor.ask(capacity=8) for _ in range(4)]  # the semaphore grows
        granted = [(await actor.claim(ask)).granted for ask in eight]
        assert granted == [True, True, True, False]
        three = actor.ask(capacity=3)  # and shrinks
        assert not (await actor.claim(three)).granted
        await actor.resign(*five)
        assert (await actor.renew_one(eight[3])).granted
        assert not (await actor.renew_one(three)).granted
        await actor.resign(*eight[:2])
        assert (await actor.renew_one(three)).granted

    @driven
    async def test_a_claim_of_a_smaller_capacity_holds_back_those_behind_it(
        self, stage: Stage
    ) -> None:
        actor, other = stage.actor(), stage.actor()
        await other.attend()
        holders = [actor.ask(capacity=8) for _ in range(4)]
        for ask in holders:
            await actor.claim(ask)
        small, large, larger = (
            other.ask(capacity=3),
            other.ask(capacity=8),
            other.ask(capacity=9, weight=2),
        )
        for ask in (small, large, larger):  # the last two would fit beside the holders
            assert not (await other.claim(ask)).granted
        assert not (await actor.claim(actor.ask(capacity=8, queue=False))).granted
        await actor.resign(holders[0])
        assert await other.wakes(0) == []
        await actor.resign(holders[1])
        woken = {wake.id for wake in await other.wakes(3)}
        assert woken == {small.id, large.id, larger.id}
        for ask in (small, large, larger):
            assert (await other.renew_one(ask)).granted

    @driven
    async def test_a_small_claim_that_leaves_wakes_the_larger_ones_behind_it(
        self, stage: Stage
    ) -> None:
        actor, other = stage.actor(), stage.actor()
        await other.attend()
        for _ in range(4):
            await actor.claim(actor.ask(capacity=8))
        small = actor.ask(capacity=3)
        await actor.claim(small)
        large = [other.ask(capacity=8) for _ in range(2)]
        for ask in large:
            assert not (await other.claim(ask)).granted
        await actor.resign(small)
        assert {wake.id for wake in await other.wakes(2)} == {ask.id for ask in large}

    @driven
    async def test_a_claim_that_will_not_queue_is_kept_if_granted(self, stage: Stage) -> None:
        actor = stage.actor()
        asks = [actor.ask(capacity=2, queue=False) for _ in range(3)]
        assert [(await actor.claim(ask)).granted for ask in asks] == [True, True, False]
        assert len(await actor.entries("x")) == 2

    @driven
    async def test_a_claim_that_will_not_queue_does_not_overtake(self, stage: Stage) -> None:
        actor = stage.actor()
        holder, waiter = actor.ask(capacity=2), actor.ask(capacity=2, weight=2)
        await actor.claim(holder)
        await actor.claim(waiter)
        assert not (await actor.claim(actor.ask(capacity=2, queue=False))).granted
        assert [entry.id for entry in await actor.entries("x")] == [holder.id, waiter.id]

    @driven
    async def test_a_refused_newcomer_finds_the_dead_gone_and_the_queue_in_order(
        self, stage: Stage
    ) -> None:
        # A claim that is not kept still removes expired claims. The weights must add up afterwards.
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
    async def test_a_claim_refused_for_its_kind_still_wakes_whom_its_look_lets_in(
        self, stage: Stage
    ) -> None:
        actor, waiting = stage.actor(), stage.actor()
        await waiting.attend()
        await actor.claim(actor.ask(ttl=2))
        waiter = waiting.ask(ttl=8)
        await waiting.claim(waiter)
        await stage.advance(2.5)
        with pytest.raises(KindMismatch):
            await actor.claim(actor.ask(capacity=2))
        assert [wake.id for wake in await waiting.wakes(1)] == [waiter.id]

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

    @driven
    async def test_holders_and_waiters_are_shown_in_the_order_of_tickets(
        self, stage: Stage
    ) -> None:
        actor, other = stage.actor(), stage.actor()
        asks = [
            actor.ask(ttl=5, capacity=4, weight=weight, payload=b"claim %d" % weight)
            for weight in (1, 3, 2, 4)
        ]
        tickets = [(await actor.claim(ask)).ticket for ask in asks]
        entries = await other.entries("x")
        assert [entry.id for entry in entries] == [ask.id for ask in asks]
        assert [entry.ticket for entry in entries] == tickets
        assert [entry.granted for entry in entries] == [True, True, False, False]
        assert [entry.weight for entry in entries] == [1, 3, 2, 4]
        assert [entry.payload for entry in entries] == [ask.payload for ask in asks]
        assert {(entry.name, entry.capacity) for entry in entries} == {("x", 4)}
        assert all(4 < stage.units(entry.left) <= 5 for entry in entries)

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
    async def test_a_lone_holder_is_shown_with_its_weight(self, stage: Stage) -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=5, capacity=3, weight=2, payload=b"alone")
        ticket = (await actor.claim(ask)).ticket
        (entry,) = await actor.entries("x")
        assert entry[:7] == ("x", ask.id, ticket, True, Kind.SEMAPHORE, 2, 3)
        assert entry.payload == b"alone"


class ClockContract(StepBackContract):
    """What a clock that goes back must not do to several holders at once."""

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
