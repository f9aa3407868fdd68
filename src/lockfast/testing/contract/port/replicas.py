"""The port's contract on two engines that are asked about the same claims, as replicas of the
service are when a client moves from one to the other.
"""

from __future__ import annotations

from lockfast.port import Wake
from lockfast.testing.harness.roaming import again
from lockfast.testing.harness.stage import Actor, Contract, Stage, driven


class ReplicaContract(Contract):
    """For engines whose claims survive the process that made them: all but ZooKeeper."""

    @driven
    async def test_a_copy_at_another_replica_finds_the_claim(self, stage: Stage) -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask()
        first = await old.claim(ask)
        second = await new.claim(again(ask, None, 2))
        assert (second.ticket, second.granted) == (first.ticket, True)
        assert len(await new.entries("x")) == 1

    @driven
    async def test_another_replica_renews_a_holder_for_longer_than_its_ttl(
        self, stage: Stage
    ) -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask(ttl=4)
        first = await old.claim(ask)
        for _ in range(4):
            await stage.advance(2)
            standing = await new.renew_one(again(ask, first, 2))
            assert (standing.ticket, standing.granted) == (first.ticket, True)
            assert stage.units(standing.left) > 2
        assert not (await old.claim(old.ask(queue=False))).granted

    @driven
    async def test_the_old_replica_ends_and_the_claim_stays(self, stage: Stage) -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask(ttl=4)
        first = await old.claim(ask)
        moved = again(ask, first, 2)
        await new.renew_one(moved)
        await old.engine.close()
        await stage.advance(2)
        assert (await new.renew_one(moved)).ticket == first.ticket
        assert [entry.id for entry in await new.entries("x")] == [ask.id]

    @driven
    async def test_the_old_replica_ends_before_the_claim_has_moved(self, stage: Stage) -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask(ttl=4)
        first = await old.claim(ask)
        await old.engine.close()
        standing = await new.renew_one(again(ask, first, 2))
        assert (standing.ticket, standing.granted) == (first.ticket, True)

    @driven
    async def test_a_late_copy_at_the_old_replica_does_not_harm_what_the_new_one_has(
        self, stage: Stage
    ) -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask(ttl=4)
        moved = again(ask, None, 2)
        first = await new.claim(moved)
        late = await old.engine.claim(ask, old.deadline)
        assert late is None or (late.ticket, late.granted) == (first.ticket, True)
        moved.ticket, moved.granted = first.ticket, True
        for _ in range(4):
            await stage.advance(2)
            assert (await new.renew_one(moved)).ticket == first.ticket
        assert [entry.id for entry in await new.entries("x")] == [ask.id]

    @driven
    async def test_a_late_renewal_at_the_old_replica_does_not_harm_the_claim(
        self, stage: Stage
    ) -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask(ttl=4)
        first = await old.claim(ask)
        ask.ticket, ask.granted = first.ticket, True
        moved = again(ask, first, 2)
        await new.renew_one(moved)
        await old.renew(ask)
        for _ in range(4):
            await stage.advance(2)
            assert (await new.renew_one(moved)).ticket == first.ticket

    @driven
    async def test_the_client_moves_back_and_forth(self, stage: Stage) -> None:
        actors = [stage.actor(), stage.actor()]
        ask = actors[0].ask(ttl=4)
        first = await actors[0].claim(ask)
        for epoch in range(2, 8):
            await stage.advance(1.5)
            moved = again(ask, first, epoch)
            assert (await actors[epoch % 2].renew_one(moved)).ticket == first.ticket
        assert await actors[0].resign(moved) == [True]
        assert await actors[1].renew(moved) == [None]

    @driven
    async def test_any_replica_resigns_a_claim_for_good(self, stage: Stage) -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask()
        first = await old.claim(ask)
        moved = again(ask, first, 2)
        assert await new.resign(moved, doubt=True) == [True]
        assert await new.resign(moved, doubt=True) == [False]
        assert await old.is_dead(ask)
        assert await old.renew(ask) == [None]
        assert await new.is_dead(moved)
        assert await old.entries("x") == []

    @driven
    async def test_one_resignation_of_a_holder_is_enough(self, stage: Stage) -> None:
        old, new, other = stage.actor(), stage.actor(), stage.actor()
        ask = old.ask()
        moved = again(ask, await old.claim(ask), 2)
        assert await new.resign(moved, doubt=True) == [True]
        for actor in (old, new, other):
            assert await actor.is_dead(again(ask, None, 1))
        assert await old.entries("x") == []

    @driven
    async def test_a_late_copy_at_the_old_replica_stays_dead(self, stage: Stage) -> None:
        old, new = stage.actor(), stage.actor()
        await old.claim(old.ask("met"))  # it is connected, and may know the server's clock
        ask = old.ask(ttl=5)
        moved = again(ask, None, 2)
        assert await new.resign(moved, doubt=True) == [False]
        assert await old.is_dead(ask)
        await stage.advance(4.5)  # shortly before not_after
        assert await old.is_dead(ask)
        await stage.advance(2)
        assert await old.is_dead(ask)
        assert await new.entries("x") == []

    @driven
    async def test_a_late_renewal_at_the_old_replica_revives_nothing(self, stage: Stage) -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask()
        first = await old.claim(ask)
        assert await new.resign(again(ask, first, 2)) == [True]
        ask.ticket, ask.granted = first.ticket, True
        assert await old.renew(ask) == [None]
        assert (await new.claim(new.ask())).granted

    @driven
    async def test_a_resignation_at_both_replicas_is_true_once(self, stage: Stage) -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask()
        first = await old.claim(ask)
        moved = again(ask, first, 2)
        await new.renew_one(moved)
        both = await new.resign(moved) + await old.resign(ask)
        assert both == [True, False]

    @driven
    async def test_many_claims_move_at_once_and_some_are_gone(self, stage: Stage) -> None:
        old, new = stage.actor(), stage.actor()
        asks = [old.ask(f"name {number}") for number in range(20)]
        moved = [again(ask, await old.claim(ask), 2) for ask in asks]
        gone = asks[::3]
        await old.resign(*gone)
        standings = await new.renew(*moved)
        for ask, standing in zip(asks, standings, strict=True):
            assert (standing is None) == (ask in gone), ask.shape.name
        expected = [ask not in gone for ask in asks]
        assert await new.resign(*moved) == expected


class ReplicaQueueContract(Contract):
    """For engines that keep a queue, and whose claims survive the process that made them."""

    @driven
    async def test_a_waiter_keeps_its_place_at_another_replica(self, stage: Stage) -> None:
        old, new, other = stage.actor(), stage.actor(), stage.actor()
        holder, waiter, last = other.ask(), old.ask(), other.ask()
        await other.claim(holder)
        first = await old.claim(waiter)
        await other.claim(last)
        moved = again(waiter, first, 2)
        standing = await new.renew_one(moved)
        assert (standing.ticket, standing.granted) == (first.ticket, False)
        assert (standing.ahead, standing.behind) == (1, 1)
        await other.resign(holder)
        assert (await new.renew_one(moved)).granted

    @driven
    async def test_a_waiter_that_moved_outlives_the_old_replica(self, stage: Stage) -> None:
        old, new, other = stage.actor(), stage.actor(), stage.actor()
        holder, waiter = other.ask(ttl=20), old.ask(ttl=4)
        await other.claim(holder)
        first = await old.claim(waiter)
        moved = again(waiter, first, 2)
        await new.renew_one(moved)
        await old.engine.close()
        for _ in range(3):
            await stage.advance(2)
            assert (await new.renew_one(moved)).ticket == first.ticket
        await other.resign(holder)
        granted = await new.renew_one(moved)
        assert (granted.ticket, granted.granted) == (first.ticket, True)

    @driven
    async def test_the_replica_that_hears_a_client_gets_its_wakes(self, stage: Stage) -> None:
        old, new, other = stage.actor(), stage.actor(), stage.actor()
        await old.attend()
        await new.attend()
        holder, waiter = other.ask(), old.ask()
        await other.claim(holder)
        first = await old.claim(waiter)
        old.engine.hear(old.client, on=False)
        await new.attend_to(old.client)
        await new.renew_one(again(waiter, first, 2))
        await other.resign(holder)
        (wake,) = await new.wakes(1)
        assert wake.id == waiter.id

    @driven
    async def test_one_replica_hears_many_clients(self, stage: Stage) -> None:
        replica, other = stage.actor(), stage.actor()
        clients = [Actor(replica.engine, stage.bench) for _ in range(20)]
        for client in clients:
            await client.attend()
        holders = [other.ask(f"name {number}") for number in range(len(clients))]
        waiters = []
        for client, holder in zip(clients, holders, strict=True):
            await other.claim(holder)
            waiters.append(client.ask(holder.shape.name))
            await client.claim(waiters[-1])
        await replica.wakes(0)
        for client in clients[::2]:
            replica.engine.hear(client.client, on=False)
        await stage.mode.sleep(0.1)
        await replica.wakes(0)
        await other.resign(*holders)
        wanted = {waiter.id for waiter in waiters[1::2]}
        heard: list[Wake] = []
        end = stage.bench.now() + 10.0
        while not wanted <= {wake.id for wake in heard} and stage.bench.now() < end:
            heard += await replica.engine.listen(end)
        assert wanted <= {wake.id for wake in heard}
