"""The port's contract on `claim`: the one rule, idempotence, tickets, and who stands where."""

from __future__ import annotations

import pytest

from lockfast.core.token import LIMIT
from lockfast.errors import CapacityMismatch
from lockfast.port import SHARED, Blocker
from lockfast.testing.stage import Contract, Stage, driven


class ClaimContract(Contract):
    """A claim appends and reports, atomically."""

    @driven
    async def test_a_free_name_is_granted_at_once(self, stage: Stage) -> None:
        actor = stage.actor()
        standing = await actor.claim(actor.ask(ttl=5))
        assert standing.granted
        assert 0 < standing.ticket < LIMIT
        assert (standing.ahead, standing.behind) == (0, 0)
        assert (standing.blocker, standing.recheck) == (None, None)
        assert standing.floor == standing.ticket
        assert 4 < stage.units(standing.left) <= 5

    @driven
    async def test_a_retry_after_a_lost_reply_finds_its_own_claim(self, stage: Stage) -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=5)
        first = await actor.claim(ask)
        await stage.advance(2)
        again = await actor.claim(ask)
        assert (again.ticket, again.granted, again.floor) == (first.ticket, True, first.ticket)
        # What is left, and not the whole ttl: the first copy's time has been running (TRAPS 43).
        assert 2 < stage.units(again.left) <= 3
        assert len(await actor.entries("x")) == 1

    @driven
    async def test_a_retry_that_was_refused_a_place_at_first_finds_it_free_later(
        self, stage: Stage
    ) -> None:
        actor = stage.actor()
        holder, hopeful = actor.ask(), actor.ask(queue=False)
        await actor.claim(holder)
        assert not (await actor.claim(hopeful)).granted
        await actor.resign(holder)
        assert (await actor.claim(hopeful)).granted

    @driven
    async def test_a_waiters_retry_finds_its_place_in_the_queue(self, stage: Stage) -> None:
        actor = stage.actor()
        asks = [actor.ask() for _ in range(4)]
        before = [await actor.claim(ask) for ask in asks]
        again = await actor.claim(asks[2])
        assert (again.ticket, again.granted) == (before[2].ticket, False)
        assert (again.ahead, again.behind) == (2, 1)

    @driven
    async def test_tickets_strictly_increase_though_the_name_was_free_in_between(
        self, stage: Stage
    ) -> None:
        actor, other = stage.actor(), stage.actor()
        tickets = []
        for each in [actor, other] * 20:
            ask = each.ask()
            tickets.append((await each.claim(ask)).ticket)
            await each.resign(ask)
        assert tickets == sorted(set(tickets))

    @driven
    async def test_grants_come_in_the_order_of_arrival(self, stage: Stage) -> None:
        actors = [stage.actor() for _ in range(3)]
        queue = [(actor, actor.ask()) for actor in actors * 3]
        tickets = [(await actor.claim(ask)).ticket for actor, ask in queue]
        assert tickets == sorted(set(tickets))
        for place, (actor, ask) in enumerate(queue):
            assert (await actor.renew_one(ask)).granted
            for later, waiting in queue[place + 1 :]:
                assert not (await later.renew_one(waiting)).granted
            assert await actor.resign(ask) == [True]

    @driven
    async def test_a_waiter_learns_who_stands_in_its_way(self, stage: Stage) -> None:
        actor, other = stage.actor(), stage.actor()
        holder = actor.ask(payload=b"the holder")
        head = await actor.claim(holder)
        first = await other.claim(other.ask(payload=b"the first in line"))
        second = await other.claim(other.ask())
        for place, standing in enumerate([first, second], 1):
            assert not standing.granted
            assert (standing.ahead, standing.behind) == (place, 0)
            assert standing.blocker == Blocker(holder.id, head.ticket, b"the holder")
            assert standing.floor == head.ticket

    @driven
    async def test_only_the_first_in_line_is_told_when_to_look_again(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.claim(actor.ask(ttl=3))
        first = await actor.claim(actor.ask(ttl=8))
        second = await actor.claim(actor.ask(ttl=8))
        assert first.recheck is not None
        assert 2 < stage.units(first.recheck) <= 3
        assert second.recheck is None

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
            assert 11.0 < standing.left <= 12.0  # a waiter has ten

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

    @driven
    async def test_claims_that_disagree_on_capacity_get_an_error(self, stage: Stage) -> None:
        actor = stage.actor()
        holder, waiter = actor.ask(capacity=2, weight=2), actor.ask(capacity=2)
        await actor.claim(holder)
        for queued in (True, False):
            with pytest.raises(CapacityMismatch) as caught:
                await actor.claim(actor.ask(capacity=3, queue=queued))
            assert (caught.value.asked, caught.value.ruling) == (3, 2)
            await actor.claim(waiter)  # the same with a queue as without
        assert [entry.id for entry in await actor.entries("x")] == [holder.id, waiter.id]
        assert (await actor.renew_one(holder)).behind == 1
        await actor.resign(holder, waiter)
        assert (await actor.claim(actor.ask(capacity=3))).granted

    @driven
    async def test_a_claim_that_will_not_queue_leaves_nothing(self, stage: Stage) -> None:
        actor = stage.actor()
        holder, hopeful = actor.ask(payload=b"me"), actor.ask(queue=False)
        head = await actor.claim(holder)
        standing = await actor.claim(hopeful)
        assert (standing.granted, standing.ahead) == (False, 1)
        assert standing.blocker == Blocker(holder.id, head.ticket, b"me")
        assert [entry.id for entry in await actor.entries("x")] == [holder.id]
        assert (await actor.renew_one(holder)).behind == 0
        assert await actor.renew(hopeful) == [None]
        assert await actor.resign(hopeful, holder) == [False, True]
        assert await actor.entries("x") == []

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
    async def test_a_claim_that_comes_after_its_time_is_dead(self, stage: Stage) -> None:
        actor = stage.actor()
        late = actor.ask(late=1)
        assert await actor.is_dead(late)
        assert await actor.entries("x") == []
        assert (await actor.claim(actor.ask())).granted

    @driven
    async def test_of_many_claims_at_once_one_is_granted(self, stage: Stage) -> None:
        actors = [stage.actor() for _ in range(8)]
        standings = await stage.colour.together(*(each.claim(each.ask()) for each in actors))
        ordered = sorted(standings, key=lambda standing: standing.ticket)
        assert len({standing.ticket for standing in standings}) == 8
        assert [standing.granted for standing in ordered] == [True] + [False] * 7
        assert [standing.ahead for standing in ordered] == list(range(8))

    @driven
    async def test_unrelated_names_do_not_meet(self, stage: Stage) -> None:
        actor = stage.actor()
        standings = [await actor.claim(actor.ask(f"name {number}")) for number in range(300)]
        assert all(standing.granted for standing in standings)
