"""The port's contract for engines that remove the claims of connections that have ended."""

from __future__ import annotations

from typing import Protocol, cast

from lockfast.port import Ask, Departing, Engine
from lockfast.testing.harness.roaming import again
from lockfast.testing.harness.stage import Actor, Contract, Stage, driven


class Both(Engine, Departing, Protocol):
    """An engine that has these methods."""


def _of(actor: Actor) -> Both:
    return cast("Both", actor.engine)


async def attach(actor: Actor, *asks: Ask) -> list[bool | Exception]:
    """Attach claims to their connections."""
    return await _of(actor).attach(asks, actor.deadline)


async def depart(actor: Actor, *asks: Ask) -> list[bool | Exception]:
    """Remove claims whose connections have ended."""
    return await _of(actor).depart(asks, actor.deadline)


class DepartureContract(Contract):
    """For engines that have `attach` and `depart`."""

    @driven
    async def test_a_claim_ends_with_its_connection(self, stage: Stage) -> None:
        replica, other = stage.actor(), stage.actor()
        ask = again(replica.ask(), None, 1)
        assert await attach(replica, ask) == [True]
        assert (await replica.claim(ask)).granted
        assert await depart(replica, ask) == [True]
        assert await replica.entries("x") == []
        assert await replica.renew(ask) == [None]
        assert (await other.claim(other.ask())).granted

    @driven
    async def test_a_claim_that_has_moved_stays(self, stage: Stage) -> None:
        old, new = stage.actor(), stage.actor()
        ask = again(old.ask(), None, 1)
        await attach(old, ask)
        moved = again(ask, await old.claim(ask), 2)
        assert await attach(new, moved) == [True]
        assert await depart(old, ask) == [False]
        assert (await new.renew_one(moved)).granted
        assert await depart(new, moved) == [True]
        assert await new.entries("x") == []

    @driven
    async def test_a_late_renewal_on_the_old_connection_gives_it_nothing(
        self, stage: Stage
    ) -> None:
        old, new = stage.actor(), stage.actor()
        ask = again(old.ask(), None, 1)
        await attach(old, ask)
        moved = again(ask, await old.claim(ask), 2)
        await attach(new, moved)
        await new.renew_one(moved)
        assert await attach(old, again(moved, None, 1)) == [False]
        await old.renew(again(moved, None, 1))
        assert await depart(old, ask) == [False]
        assert (await new.renew_one(moved)).granted

    @driven
    async def test_a_claim_that_was_never_attached_stays(self, stage: Stage) -> None:
        replica = stage.actor()
        ask = again(replica.ask(), None, 1)
        await replica.claim(ask)
        assert await depart(replica, ask) == [False]
        assert (await replica.renew_one(ask)).granted

    @driven
    async def test_a_late_copy_of_the_claim_stays_dead(self, stage: Stage) -> None:
        replica = stage.actor()
        ask = again(replica.ask(), None, 1)
        await attach(replica, ask)
        await replica.claim(ask)
        assert await depart(replica, ask) == [True]
        await attach(replica, ask)
        assert await replica.is_dead(ask)
        assert await replica.entries("x") == []

    @driven
    async def test_a_claim_whose_copy_comes_after_its_departure_is_dead(self, stage: Stage) -> None:
        replica = stage.actor()
        await replica.learn()
        ask = again(replica.ask(), None, 1)
        await attach(replica, ask)
        assert await depart(replica, ask) == [False]
        assert await replica.is_dead(ask)

    @driven
    async def test_a_departure_may_be_repeated(self, stage: Stage) -> None:
        replica, other = stage.actor(), stage.actor()
        ask = again(replica.ask(), None, 1)
        await attach(replica, ask)
        await replica.claim(ask)
        assert await depart(replica, ask) == [True]
        holder = other.ask()
        assert (await other.claim(holder)).granted
        assert await depart(replica, ask) == [False]
        assert (await other.renew_one(holder)).granted

    @driven
    async def test_another_claim_of_the_client_stays(self, stage: Stage) -> None:
        replica = stage.actor()
        first, second = (again(replica.ask(name), None, 1) for name in ("x", "y"))
        await attach(replica, first, second)
        await replica.claim(first)
        await replica.claim(second)
        assert await depart(replica, first) == [True]
        assert (await replica.renew_one(second)).granted

    @driven
    async def test_several_claims_depart_at_once_and_some_have_moved(self, stage: Stage) -> None:
        old, new = stage.actor(), stage.actor()
        asks = [again(old.ask(f"name {number}"), None, 1) for number in range(10)]
        assert await attach(old, *asks) == [True] * 10
        for ask in asks:
            await old.claim(ask)
        moved = [again(ask, None, 2) for ask in asks[::3]]
        assert await attach(new, *moved) == [True] * len(moved)
        left = [number % 3 != 0 for number in range(10)]
        assert await depart(old, *asks) == left
        for ask in moved:
            assert (await new.renew_one(ask)).granted

    @driven
    async def test_an_attachment_lasts_as_long_as_the_claim(self, stage: Stage) -> None:
        old, new = stage.actor(), stage.actor()
        ask = again(old.ask(ttl=4), None, 1)
        await attach(old, ask)
        await old.claim(ask)
        moved = again(ask, None, 2)
        await attach(new, moved)
        for _ in range(4):
            await stage.advance(2)
            await new.renew_one(moved)
        assert await depart(old, ask) == [False]
        assert await depart(new, moved) == [True]


class DepartureQueueContract(Contract):
    """For those of them that keep a queue."""

    @driven
    async def test_the_next_waiter_is_granted_and_woken(self, stage: Stage) -> None:
        replica, other = stage.actor(), stage.actor()
        await other.attend()
        ask, waiter = again(replica.ask(), None, 1), other.ask()
        await attach(replica, ask)
        await replica.claim(ask)
        assert not (await other.claim(waiter)).granted
        assert await depart(replica, ask) == [True]
        (wake,) = await other.wakes(1)
        assert wake.id == waiter.id
        assert (await other.renew_one(waiter)).granted

    @driven
    async def test_a_waiter_departs(self, stage: Stage) -> None:
        replica, other = stage.actor(), stage.actor()
        holder, waiter, last = other.ask(), again(replica.ask(), None, 1), other.ask()
        await other.claim(holder)
        await attach(replica, waiter)
        assert not (await replica.claim(waiter)).granted
        await other.claim(last)
        assert await depart(replica, waiter) == [True]
        await other.resign(holder)
        assert (await other.renew_one(last)).granted

    @driven
    async def test_a_waiter_that_has_moved_keeps_its_place(self, stage: Stage) -> None:
        old, new, other = stage.actor(), stage.actor(), stage.actor()
        holder, waiter = other.ask(), again(old.ask(), None, 1)
        await other.claim(holder)
        await attach(old, waiter)
        first = await old.claim(waiter)
        moved = again(waiter, first, 2)
        await attach(new, moved)
        await new.renew_one(moved)
        assert await depart(old, waiter) == [False]
        await other.resign(holder)
        granted = await new.renew_one(moved)
        assert (granted.ticket, granted.granted) == (first.ticket, True)
