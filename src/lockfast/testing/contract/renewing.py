"""The port's contract on `renew`: absolute, never resurrecting, and never another's."""

from __future__ import annotations

from lockfast.port import Standing
from lockfast.testing.stage import Contract, Stage, driven

CROWD = 1000


class RenewContract(Contract):
    """A renewal extends what is there, and re-reads its standing."""

    @driven
    async def test_a_renewal_is_absolute_and_never_additive(self, stage: Stage) -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=5)
        await actor.claim(ask)
        for _ in range(5):
            assert 4 < stage.units((await actor.renew_one(ask)).left) <= 5
        await stage.advance(2)
        assert 4 < stage.units((await actor.renew_one(ask)).left) <= 5
        (entry,) = await actor.entries("x")
        assert 4 < stage.units(entry.left) <= 5

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
        assert 11.0 < (await actor.renew_one(holder)).left <= 12.0
        assert 9.0 < (await actor.renew_one(waiter)).left <= 10.0

    @driven
    async def test_a_renewal_tells_a_lone_holder_its_standing(self, stage: Stage) -> None:
        actor = stage.actor()
        ask = actor.ask()
        claimed = await actor.claim(ask)
        renewed = await actor.renew_one(ask)
        assert renewed._replace(left=0.0) == claimed._replace(left=0.0)

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
    async def test_what_was_never_claimed_is_not_made_by_a_renewal(self, stage: Stage) -> None:
        actor = stage.actor()
        assert await actor.renew(actor.ask()) == [None]
        assert await actor.entries("x") == []

    @driven
    async def test_what_was_resigned_is_not_brought_back_by_a_renewal(self, stage: Stage) -> None:
        actor = stage.actor()
        ask = actor.ask()
        await actor.claim(ask)
        await actor.resign(ask)
        assert await actor.renew(ask, ask) == [None, None]
        assert (await actor.claim(actor.ask())).granted

    @driven
    async def test_what_has_expired_is_not_brought_back_by_a_renewal(self, stage: Stage) -> None:
        actor, other = stage.actor(), stage.actor()
        lost, next_one = actor.ask(ttl=2), other.ask(ttl=5)
        await actor.claim(lost)
        await stage.advance(2.5)
        assert await actor.renew(lost) == [None]
        assert (await other.claim(next_one)).granted
        await stage.advance(2)
        assert await actor.renew(lost) == [None]  # nor does it keep its successor's alive
        (entry,) = await other.entries("x")
        assert entry.id == next_one.id
        assert 2 < stage.units(entry.left) <= 3

    @driven
    async def test_a_renewal_never_touches_anothers_claim(self, stage: Stage) -> None:
        actor, other = stage.actor(), stage.actor()
        holder, waiter = actor.ask(ttl=5), actor.ask(ttl=5)
        await actor.claim(holder)
        await stage.advance(2)
        assert await other.renew(other.ask()) == [None]
        (entry,) = await other.entries("x")
        assert stage.units(entry.left) <= 3
        await actor.claim(waiter)
        assert await other.renew(other.ask()) == [None]
        entries = await actor.entries("x")  # where claims share a session, others see its time
        assert [each.id for each in entries] == [holder.id, waiter.id]
        assert stage.units(entries[0].left) <= 3

    @driven
    async def test_live_gone_and_foreign_claims_in_one_call_fail_alone_and_in_order(
        self, stage: Stage
    ) -> None:
        actor, other = stage.actor(), stage.actor()
        foreign = other.ask("taken")
        await other.claim(foreign)
        live = [actor.ask(f"live {number}") for number in range(3)]
        queued = actor.ask("live 1")
        for ask in [*live, queued]:
            await actor.claim(ask)
        gone = actor.ask("gone")
        await actor.claim(gone)
        await actor.resign(gone)
        never = actor.ask("taken")
        asks = [live[0], never, queued, gone, live[1], actor.ask("live 1"), live[2]]
        found = await actor.renew(*asks)
        assert [f and (isinstance(f, Standing) and f.granted) for f in found] == [
            True,
            None,
            False,
            None,
            True,
            None,
            True,
        ]
        assert [entry.id for entry in await actor.entries("taken")] == [foreign.id]

    @driven
    async def test_nothing_to_renew_is_fine(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.claim(actor.ask())
        assert await actor.renew() == []

    @driven
    async def test_a_thousand_claims_are_renewed_in_one_call(self, stage: Stage) -> None:
        actor = stage.actor()
        asks = [actor.ask(f"crowd {number}", ttl=60) for number in range(CROWD)]
        for ask in asks:
            await actor.claim(ask)
        await actor.resign(asks[1])
        found = await actor.renew(*asks)
        assert [number for number, standing in enumerate(found) if standing is None] == [1]
        assert sum(isinstance(f, Standing) and f.granted for f in found) == CROWD - 1
