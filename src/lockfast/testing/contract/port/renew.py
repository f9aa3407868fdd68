"""The port's contract on `renew`: never additive, never for a claim that is gone or another's."""

from __future__ import annotations

from lockfast.port import Standing
from lockfast.testing.harness.stage import Contract, Stage, driven

CROWD = 1000


class RenewContract(Contract):
    """A renewal extends a live claim, and returns its standing."""

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
    async def test_a_renewal_tells_a_lone_holder_its_standing(self, stage: Stage) -> None:
        actor = stage.actor()
        ask = actor.ask()
        claimed = await actor.claim(ask)
        renewed = await actor.renew_one(ask)
        assert renewed._replace(left=0.0) == claimed._replace(left=0.0)

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
        assert await actor.renew(lost) == [None]  # nor does this extend the next holder's claim
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
        (entry,) = await actor.entries("x")  # by the holder: some engines show others only a bound
        assert stage.units(entry.left) <= 3
        await actor.claim(waiter)
        assert await other.renew(other.ask()) == [None]
        entries = await actor.entries("x")  # others would see the time of a shared session
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
        asks = []
        for number in range(CROWD):  # made one by one, since `not_after` counts from the making
            asks.append(actor.ask(f"crowd {number}", ttl=60))
            await actor.claim(asks[-1])
            if number % 100 == 99:  # or the first expire while a slow server grants the last
                assert None not in await actor.renew(*asks)
        await actor.resign(asks[1])
        found = await actor.renew(*asks)
        assert [number for number, standing in enumerate(found) if standing is None] == [1]
        assert sum(isinstance(f, Standing) and f.granted for f in found) == CROWD - 1
