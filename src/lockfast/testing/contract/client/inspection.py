"""The client's contract on listing all claims, and on taking a claim away from its holder."""

from __future__ import annotations

import socket

import pytest

from lockfast.breaks import Break
from lockfast.errors import EngineRefused, LeaseLost, Loss
from lockfast.port import Entry, Kind
from lockfast.primitives.lock import Holder
from lockfast.testing.contract.client.shared_locks import until_queued
from lockfast.testing.contract.client.times import SLACK
from lockfast.testing.harness.mode import Job
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import (
    AnyLease,
    acquire,
    breaks,
    inspect,
    release,
    revoke,
    wait_lost,
)


async def first_waiter_removed(stage: Stage) -> list[Job[AnyLease]]:
    """Let two clients wait, remove the first waiter, and release the lock. Return both waits."""
    client, *others, operator = (stage.client() for _ in range(4))
    lease = await acquire(client.lock("x", ttl=20))
    jobs = []
    for number, other in enumerate(others):
        jobs.append(stage.mode.start(acquire(other.lock("x", ttl=20), 20)))
        await until_queued(stage, client.lock("x"), number + 2)
    waiter = next(each for each in await inspect(operator, "x") if not each.granted)
    assert await revoke(operator, waiter, "it is in the way")
    await release(lease)
    return jobs


class OverviewContract(Contract):
    """What an operator sees, and what happens to a lock that an operator breaks."""

    @driven
    async def test_all_names_with_a_prefix_are_shown_in_order_with_who_holds_and_who_waits(
        self, stage: Stage
    ) -> None:
        client, other, looker = (stage.client() for _ in range(3))
        held = [
            await acquire(client.lock(name, ttl=20, purpose="why"))
            for name in ("pay:2", "pay:1", "ship:1")
        ]
        job = stage.mode.start(acquire(other.lock("pay:1", ttl=15), 20))
        await until_queued(stage, client.lock("pay:1"), 2)
        shown = await inspect(looker, "pay:")
        assert [(each.name, each.granted) for each in shown] == [
            ("pay:1", True),
            ("pay:1", False),
            ("pay:2", True),
        ]
        assert (shown[0].token, shown[1].token) == (held[1].token, None)
        assert (shown[0].life, shown[1].life) == (20, 10)  # a waiter has ten seconds at most
        assert shown[0].who.purpose == "why"
        assert 0 < shown[0].left <= 20
        assert {each.name for each in await inspect(looker)} == {"pay:1", "pay:2", "ship:1"}
        for lease in held:
            await release(lease)
        await release(await job.result())
        assert await inspect(looker) == []

    @driven
    async def test_a_claim_that_is_taken_away_goes_to_the_next_and_its_holder_is_told(
        self, stage: Stage
    ) -> None:
        client, other, operator = (stage.client() for _ in range(3))
        lease = await acquire(client.lock("x", ttl=stage.brief))
        job = stage.mode.start(acquire(other.lock("x", ttl=stage.brief), 20))
        await until_queued(stage, client.lock("x"), 2)
        holder = (await inspect(operator, "x"))[0]
        assert holder.id == lease.id
        assert await revoke(operator, holder, "it hangs")
        following = await job.result()
        assert following.token > lease.token
        assert await wait_lost(lease, SLACK)
        assert lease.loss is Loss.GONE
        assert not await revoke(operator, holder, "twice")
        following.ensure_held()  # the second `revoke` did not remove the next holder's claim
        await release(following)
        with pytest.raises(LeaseLost, match="it hangs"):
            await release(lease)

    @driven
    async def test_a_waiter_that_is_taken_away_is_not_let_in_beside_the_next(
        self, stage: Stage
    ) -> None:
        jobs = await first_waiter_removed(stage)
        await stage.mode.until(lambda: any(job.done() for job in jobs), "one is let in", 20)
        await stage.mode.sleep(0.1)
        # Without a queue, the removed waiter may acquire first, because it asks again.
        jobs.sort(key=lambda job: not job.done())
        assert not jobs[1].done()
        following = await jobs[0].result()
        following.ensure_held()
        await release(following)
        last = await jobs[1].result()
        assert last.token > following.token
        await release(last)

    @driven
    async def test_who_broke_a_lock_and_why_is_shown_and_told_to_its_holder(
        self, stage: Stage
    ) -> None:
        client, operator = stage.client(), stage.client()
        told: list[Break | None] = []
        for reason in ("found at a renewal", "found by a release"):
            lease = await acquire(client.lock("x", ttl=stage.brief))
            (holder,) = await inspect(operator, "x")
            assert await revoke(operator, holder, reason)
            assert not await revoke(operator, holder, "too late to break anything")
            if "renewal" in reason:
                assert await wait_lost(lease, SLACK)
            with pytest.raises(LeaseLost, match=f"{socket.gethostname()} .*: {reason}") as caught:
                await release(lease)
            assert caught.value.reason is Loss.GONE
            told.append(caught.value.broken)
            assert told[-1] is not None
            assert (told[-1].id, told[-1].ticket) == (lease.id, lease.ticket)
        assert await breaks(operator, "x") == told[::-1]
        assert await breaks(operator, "y") == []

    @driven
    async def test_a_lock_is_broken_though_that_cannot_be_recorded(self, stage: Stage) -> None:
        client = stage.client()
        operator, way = stage.shaky_client()
        lease = await acquire(client.lock("x", ttl=stage.brief))
        (holder,) = await inspect(operator, "x")
        way.lost_records = 1
        assert await revoke(operator, holder, "its record is lost")
        assert await inspect(operator, "x") == []
        assert await wait_lost(lease, SLACK)
        with pytest.raises(LeaseLost) as caught:
            await release(lease)
        assert caught.value.broken is None

    @driven
    async def test_an_id_that_is_none_of_ours_is_sent_to_no_server(self, stage: Stage) -> None:
        client = stage.client()
        lease = await acquire(client.lock("x", ttl=stage.brief))
        (holder,) = await inspect(client, "x")
        for id_ in ("", "x", "0" * 33, f"{'0' * 20}\r\n$1\r\nx", "../../../base"):
            entry = Entry("x", id_, 7, True, Kind.LOCK, 1, 1, 1.0, b"")  # noqa: FBT003  # an entry
            with pytest.raises(EngineRefused, match="not the id of a claim"):
                await revoke(client, Holder(entry), "an id with a command in it")
        assert holder.id == lease.id
        await release(lease)

    @driven
    async def test_a_release_tells_of_the_loss_though_it_takes_long_to_learn_who_broke_it(
        self, stage: Stage
    ) -> None:
        """The heart also resigns a claim whose release takes longer than a beat.

        A loss then looked like a normal release.
        """
        client, way = stage.shaky_client()
        operator = stage.client()
        told: list[str] = []
        lease = await acquire(client.lock("x", ttl=stage.brief))
        lease.on_lost(lambda: told.append("x"))
        (holder,) = await inspect(operator, "x")
        assert await revoke(operator, holder, "it hangs")
        way.before_records = lambda: stage.mode.sleep(stage.brief)
        with pytest.raises(LeaseLost):
            await release(lease)
        assert lease.loss is Loss.GONE
        await stage.mode.sleep(stage.brief)
        assert told == ["x"]


class RemovedWaiterContract(Contract):
    """What happens to a waiter that an operator removes from a queue."""

    @driven
    async def test_a_waiter_that_is_taken_away_waits_again_behind_the_others(
        self, stage: Stage
    ) -> None:
        removed, other = await first_waiter_removed(stage)
        following = await other.result()
        assert not removed.done()
        await release(following)
        await release(await removed.result())
