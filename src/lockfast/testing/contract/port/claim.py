"""The port's contract on `claim`: idempotence, tickets, and what a waiter learns of the holder."""

from __future__ import annotations

from lockfast.core.token import LIMIT
from lockfast.port import Blocker
from lockfast.testing.harness.stage import Contract, Stage, driven


class ClaimContract(Contract):
    """`claim` appends a claim and reports its standing, atomically."""

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
        # Less than the ttl is left, because it counts from the first copy (trap 43).
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
    async def test_a_waiter_learns_who_holds_and_is_let_in_after_it(self, stage: Stage) -> None:
        actor, other = stage.actor(), stage.actor()
        holder, waiter = actor.ask(payload=b"the holder"), other.ask()
        head = await actor.claim(holder)
        for standing in (await other.claim(waiter), await other.renew_one(waiter)):
            assert (standing.granted, standing.ahead) == (False, 1)
            assert standing.blocker == Blocker(holder.id, head.ticket, b"the holder")
            assert standing.floor == head.ticket
            assert standing.ticket > 0
            # None if the engine itself notifies waiters of the end of a claim, as a watch does.
            assert standing.recheck is None or stage.units(standing.recheck) <= 5
        assert (await actor.renew_one(holder)).behind == 1
        await actor.resign(holder)
        after = await other.renew_one(waiter)
        assert (after.granted, after.blocker, after.recheck) == (True, None, None)
        assert after.ticket > head.ticket

    @driven
    async def test_of_many_claims_at_once_no_more_than_one_is_granted(self, stage: Stage) -> None:
        actors = [stage.actor() for _ in range(8)]
        standings = await stage.mode.together(*(each.claim(each.ask()) for each in actors))
        assert sum(standing.granted for standing in standings) <= 1

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
    async def test_a_claim_that_comes_after_its_time_is_dead(self, stage: Stage) -> None:
        actor = stage.actor()
        late = actor.ask(late=1)
        assert await actor.is_dead(late)
        assert await actor.entries("x") == []
        assert (await actor.claim(actor.ask())).granted

    @driven
    async def test_no_claims_at_all_are_no_error(self, stage: Stage) -> None:
        actor = stage.actor()
        assert await actor.engine.claim_all([], actor.deadline) == []

    @driven
    async def test_unrelated_names_do_not_meet(self, stage: Stage) -> None:
        actor = stage.actor()
        standings = [await actor.claim(actor.ask(f"name {number}")) for number in range(300)]
        assert all(standing.granted for standing in standings)
