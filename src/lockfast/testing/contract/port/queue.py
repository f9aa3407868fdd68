"""The port's contract on queues: grants in the order of arrival, and the place of each claim."""

from __future__ import annotations

from itertools import pairwise

from lockfast.port import Blocker, Standing, Wake
from lockfast.testing.contract.port.names import PAYLOADS
from lockfast.testing.harness.stage import ROUNDING, Contract, Stage, driven


class QueueContract(Contract):
    """For engines that keep a queue: all but Redlock."""

    @driven
    async def test_a_waiters_retry_finds_its_place_in_the_queue(self, stage: Stage) -> None:
        actor = stage.actor()
        asks = [actor.ask() for _ in range(4)]
        before = [await actor.claim(ask) for ask in asks]
        again = await actor.claim(asks[2])
        assert (again.ticket, again.granted) == (before[2].ticket, False)
        assert (again.ahead, again.behind) == (2, 1)

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
    async def test_a_renewal_sees_a_resignation_that_was_answered_before_it(
        self, stage: Stage
    ) -> None:
        """Servers of one engine may lag behind others, but a renewal must not read an old state."""
        actors = [stage.actor() for _ in range(4)]
        for _ in range(10):
            queue = [(actor, actor.ask()) for actor in actors]
            for actor, ask in queue:
                await actor.claim(ask)
            for (actor, ask), (later, waiting) in pairwise(queue):
                assert await actor.resign(ask) == [True]
                assert (await later.renew_one(waiting)).granted
            last, left = queue[-1]
            assert await last.resign(left) == [True]

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
    async def test_of_many_claims_at_once_one_is_granted(self, stage: Stage) -> None:
        actors = [stage.actor() for _ in range(8)]
        standings = await stage.mode.together(*(each.claim(each.ask()) for each in actors))
        ordered = sorted(standings, key=lambda standing: standing.ticket)
        assert len({standing.ticket for standing in standings}) == 8
        assert [standing.granted for standing in ordered] == [True] + [False] * 7
        assert [standing.ahead for standing in ordered] == list(range(8))

    @driven
    async def test_a_renewal_in_a_queue_is_absolute_too(self, stage: Stage) -> None:
        actor = stage.actor()
        holder, waiter = actor.ask(ttl=5), actor.ask(ttl=4)
        await actor.claim(holder)
        await actor.claim(waiter)
        await stage.advance(2)
        for _ in range(3):
            standings = await actor.renew(holder, waiter)
            lefts = [stage.units(s.left) for s in standings if isinstance(s, Standing)]
            assert 4 < lefts[0] <= 5
            assert 3 < lefts[1] <= 4

    @driven
    async def test_a_waiter_is_renewed_for_its_waiting_time_and_no_longer(
        self, stage: Stage
    ) -> None:
        actor = stage.actor()
        holder, waiter = (actor.ask(ttl=12 / stage.bench.unit) for _ in range(2))
        await actor.claim(holder)
        await actor.claim(waiter)
        assert 11.0 < (await actor.renew_one(holder)).left < 12.0 + ROUNDING
        assert 9.0 < (await actor.renew_one(waiter)).left < 10.0 + ROUNDING

    @driven
    async def test_a_holder_learns_from_its_renewal_that_others_wait(self, stage: Stage) -> None:
        actor = stage.actor()
        holder, waiters = actor.ask(), [actor.ask() for _ in range(3)]
        head = await actor.claim(holder)
        for waiter in waiters:
            await actor.claim(waiter)
        standing = await actor.renew_one(holder)
        assert (standing.ticket, standing.granted, standing.behind) == (head.ticket, True, 3)
        behind = [(await actor.renew_one(waiter)).behind for waiter in waiters]
        assert behind == [2, 1, 0]

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
    async def test_a_granted_waiter_has_only_its_waiting_time_until_it_renews(
        self, stage: Stage
    ) -> None:
        actor = stage.actor()
        ttl = 12 / stage.bench.unit  # 12 seconds: a waiter has 10 at most
        holder, waiter = actor.ask(), actor.ask(ttl=ttl)
        await actor.claim(holder)
        await actor.claim(waiter)
        await actor.resign(holder)
        standing = await actor.claim(waiter)
        assert standing.granted
        assert 8.0 < standing.left < 10.0 + ROUNDING
        assert 11.0 < (await actor.renew_one(waiter)).left < 12.0 + ROUNDING

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
    async def test_the_first_in_line_is_let_in_when_it_was_told_to_look(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.claim(actor.ask(ttl=3))
        waiter = actor.ask(ttl=8)
        recheck = (await actor.claim(waiter)).recheck
        assert recheck is not None
        await stage.advance(stage.units(recheck + 0.002))
        assert (await actor.renew_one(waiter)).granted

    @driven
    async def test_a_queue_keeps_the_payload_of_each_blocker(self, stage: Stage) -> None:
        actor = stage.actor()
        asks = [actor.ask(payload=payload) for payload in PAYLOADS]
        for ask in asks:
            await actor.claim(ask)
        for ask in asks[:-1]:
            standing = await actor.renew_one(asks[-1])
            assert standing.blocker is not None
            assert (standing.blocker.id, standing.blocker.payload) == (ask.id, ask.payload)
            await actor.resign(ask)


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
        # An engine may notice the end of the claim itself before the answer to its resignation.
        assert [wake for wake in await actor.wakes(0) if wake.id != asks[1].id] == []
