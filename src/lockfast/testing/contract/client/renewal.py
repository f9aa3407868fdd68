"""The client's contract on renewals: traps 10, 13 to 15, 17 and 26 of the documentation."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from lockfast.core.validity import State
from lockfast.errors import LeaseLost, Loss
from lockfast.testing.contract.client.loss import broken
from lockfast.testing.contract.client.shared_locks import until_queued
from lockfast.testing.contract.client.times import LONG, SLACK, SOON, TTL
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import (
    AnyLease,
    AnyLock,
    acquire,
    queue,
    release,
    try_acquire,
    wait_lost,
)


async def watched(stage: Stage, lock: AnyLock, lease: AnyLease, seconds: float) -> None:
    """Look at a lease again and again: it is renewed, never for more than its ttl (trap 13), and
    keeps its token (trap 26). `lock` is of the lease's client, which some engines tell more.
    """
    token, until = lease.token, time.monotonic() + seconds
    left: list[float] = []
    remaining: list[float] = []
    while time.monotonic() < until:
        first = (await queue(lock))[0]
        left.append(first.left)
        remaining.append(lease.remaining)
        assert (first.id, first.ticket, lease.token) == (lease.id, token, token)
        await stage.mode.sleep(0.01)
    beats = sum(later > sooner for sooner, later in pairwise(remaining))
    assert beats >= 3
    # An engine may read its clock before it reads a lease that is renewed in between.
    assert 0 < min(left) < max(left) < lock.ttl + 0.1
    assert 0 < min(remaining) < max(remaining) <= lock.ttl
    assert lease.state is State.HELD


class RenewalContract(Contract):
    """A renewal keeps what is held, for its ttl, and nothing else."""

    @driven
    async def test_trap_13_a_lease_is_kept_for_longer_than_its_ttl(self, stage: Stage) -> None:
        lock = stage.client().lock("x", ttl=TTL)
        lease = await acquire(lock)
        await watched(stage, lock, lease, 2.5 * TTL)
        assert await try_acquire(stage.client().lock("x", ttl=TTL)) is None
        await release(lease)

    @driven
    async def test_a_waiter_keeps_its_place_for_longer_than_its_ttl(self, stage: Stage) -> None:
        lock, other = (stage.client().lock("x", ttl=TTL) for _ in range(2))
        lease = await acquire(lock)
        job = stage.mode.start(acquire(other))  # for as long as it takes (trap 10)
        await until_queued(stage, lock, 2)
        await watched(stage, lock, lease, 2 * TTL)
        assert not job.done()
        ids = [each.id for each in await queue(lock)]
        assert len(ids) == 2
        assert lease.waiters == 1
        await release(lease)
        following = await job.result(SOON)
        assert following.id == ids[1]  # it is the claim that had been waiting all along
        assert following.token > lease.token
        await release(following)

    @driven
    async def test_trap_14_the_renewal_of_a_lost_lease_does_not_keep_its_successors_alive(
        self, stage: Stage
    ) -> None:
        client, way = stage.shaky_client()
        mine = client.lock("x", ttl=stage.brief)
        await release(await acquire(mine))  # connected: that may take longer than a beat
        lease = await acquire(stage.client().lock("x", ttl=2 * stage.brief))
        await broken(stage, lease)
        successor = await acquire(mine, SOON)
        way.unrenewed = True  # from now on nobody renews it rightfully
        before = (await queue(mine))[0].left
        assert lease.loss is None  # its next renewal meets the successor
        assert await wait_lost(lease, SOON)  # a heartbeat has been
        assert lease.loss is Loss.GONE
        assert 0 < (await queue(mine))[0].left < before
        third = stage.client().lock("x", ttl=LONG)
        following = await acquire(third, before + stage.bench.lag + 0.5)
        assert following.token > successor.token
        way.unrenewed = False
        await release(following)

    @driven
    async def test_trap_15_a_renewal_does_not_bring_a_lost_lease_back(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        ttl = 3 * stage.brief  # time enough for a slow renewal, or the reason would be another
        lock, another = client.lock("x", ttl=ttl), client.lock("y", ttl=ttl)
        lease, gap = await acquire(lock), await acquire(another)
        await broken(stage, lease)
        await broken(stage, gap)
        await release(await acquire(other.lock("y", ttl=LONG), SOON))  # somebody was in between
        for each in (lease, gap):
            assert await wait_lost(each, SOON)
            assert (each.state, each.loss) == (State.LOST, Loss.GONE)
        until = time.monotonic() + 0.7 * ttl  # two beats later they are still not there
        while time.monotonic() < until:
            assert await queue(lock) == await queue(another) == []
            await stage.mode.sleep(0.01)
        for each in (lease, gap):
            assert each.state is State.LOST
            with pytest.raises(LeaseLost) as caught:
                await release(each)
            assert caught.value.reason is Loss.GONE
        following = await acquire(lock, SOON)
        assert following.token > lease.token
        await release(following)

    @driven
    async def test_trap_17_the_first_question_after_a_pause_is_answered_truly(
        self, stage: Stage
    ) -> None:
        """The heart is kept from its work by a callback, and in asyncio the loop with it. The way
        to the engine has no stand-in, as if the whole process was stopped.
        """
        client, _ = stage.shaky_client()
        ttl = stage.brief
        questions = ("state", "loss", "ensure", "remaining", "release")
        acquired = (acquire(client.lock(each, ttl=ttl)) for each in questions)
        leases = dict(zip(questions, await stage.mode.together(*acquired), strict=True))
        told: list[str] = []
        answers: dict[str, object] = {}
        for name, lease in leases.items():
            lease.on_lost(lambda name=name: told.append(name))  # type: ignore[misc]  # of the loop

        def pause() -> None:
            time.sleep(max(each.remaining for each in leases.values()) + 0.01)
            answers["state"] = leases["state"].state
            answers["loss"] = leases["loss"].loss
            answers["remaining"] = leases["remaining"].remaining
            with pytest.raises(LeaseLost) as caught:
                leases["ensure"].ensure_held()
            answers["ensure"] = caught.value.reason
            time.sleep(0.1)  # for the release below, where there are threads

        stopped = await acquire(client.lock("stopped", ttl=LONG))
        stopped.on_lost(pause)
        # Each has just been renewed, so that no renewal is due in the beat that runs the pause.
        await stage.mode.until(
            lambda: all(each.remaining > 0.75 * ttl for each in leases.values()), "renewed", SLACK
        )
        stopped.fenced()
        await stage.mode.until(lambda: "ensure" in answers, "the pause", ttl + SLACK)
        with pytest.raises(LeaseLost) as caught:
            await release(leases["release"])
        assert answers.pop("remaining") == 0
        assert answers.pop("state") is State.LOST
        assert answers == {"loss": Loss.EXPIRED, "ensure": Loss.EXPIRED}
        assert caught.value.reason is Loss.EXPIRED
        await stage.mode.until(lambda: len(told) == len(leases), "on_lost was called", SLACK)
        assert sorted(told) == sorted(leases)
        assert {each.loss for each in leases.values()} == {Loss.EXPIRED}  # and so it stays
