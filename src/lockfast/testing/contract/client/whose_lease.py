"""The client's contract on whose lease it is: traps 3 to 5, 11 and 26 of the documentation."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack

import pytest

from lockfast.aio import AsyncLease, AsyncLock
from lockfast.blocking.client import Lock
from lockfast.errors import (
    Deadlock,
    EngineRefused,
    EngineUnavailable,
    LeaseLost,
    Loss,
    NotAcquired,
)
from lockfast.testing.contract.client.loss import broken
from lockfast.testing.contract.client.shared_locks import until_queued
from lockfast.testing.contract.client.times import LONG, SLACK, SOON
from lockfast.testing.harness.stage import Contract, Stage, driven, only
from lockfast.testing.harness.verbs import (
    AnyLease,
    AnyLock,
    acquire,
    holders,
    queue,
    release,
    try_acquire,
    within,
)

WORKERS = 4


async def ids(lock: AnyLock) -> list[str]:
    """List the claims on a lock."""
    return [each.id for each in await queue(lock)]


class OwnershipContract(Contract):
    """A lease is one acquisition: anybody may release it, and nobody releases another's."""

    rounds = 20
    """How often each worker takes a lock that they share. Without a queue each time is long."""

    @driven
    async def test_trap_03_a_release_that_was_refused_can_be_tried_again(
        self, stage: Stage
    ) -> None:
        client, way = stage.shaky_client()
        other = stage.client().lock("x", ttl=LONG)
        lease = await acquire(client.lock("x", ttl=LONG))
        way.refusal = EngineRefused("not allowed, says the test")
        with pytest.raises(EngineRefused, match="not allowed"):
            await release(lease)
        assert await try_acquire(other) is None
        way.refusal = None
        await release(lease)
        following = await try_acquire(other)
        assert following is not None
        await release(following)

    @driven
    async def test_trap_03_a_release_that_failed_is_made_up_for_by_itself(
        self, stage: Stage
    ) -> None:
        client, way = stage.shaky_client()
        lease = await acquire(client.lock("x", ttl=LONG))
        way.refusal = EngineRefused("not allowed, says the test")
        with pytest.raises(EngineRefused):
            await release(lease)
        way.refusal = None
        following = await acquire(stage.client().lock("x", ttl=LONG), SOON)
        await release(following)

    @driven
    async def test_trap_04_a_lock_that_is_shared_releases_nobody_elses_lease(
        self, stage: Stage
    ) -> None:
        shared = stage.client().lock("x", ttl=LONG, timeout=LONG)
        inside: list[str] = []

        async def body(lease: AnyLease) -> None:
            inside.append(lease.id)
            assert [each.id for each in await holders(shared)] == inside == [lease.id]
            inside.pop()

        async def enter() -> None:
            for _ in range(self.rounds):
                await within(shared, body)

        await stage.mode.together(*(enter() for _ in range(WORKERS)), timeout=LONG)
        assert await queue(shared) == []

    @driven
    async def test_trap_04_whoever_waits_in_vain_releases_nobody_elses_lease(
        self, stage: Stage
    ) -> None:
        shared = stage.client().lock("x", ttl=LONG, timeout=0.5)
        await release(await acquire(shared, SOON))  # connected: that may take longer

        async def never(_lease: AnyLease) -> None:
            pytest.fail("the body runs")

        async def enter_in_vain() -> None:
            with pytest.raises(NotAcquired):
                await within(shared, never)

        async def body(lease: AnyLease) -> None:
            await stage.mode.start(enter_in_vain()).result(SOON)
            lease.ensure_held()
            assert [each.id for each in await holders(shared)] == [lease.id]

        await within(shared, body)

    @only("asyncio")
    @driven
    async def test_trap_04_a_block_that_ends_in_another_task_releases_its_own_lease(
        self, stage: Stage
    ) -> None:
        shared, other = stage.client().lock("x", ttl=LONG), stage.client().lock("x", ttl=LONG)
        assert isinstance(shared, AsyncLock)

        async def resource() -> AsyncGenerator[AsyncLease]:
            async with shared as lease:
                yield lease

        # So do fixtures and dependencies of frameworks: begun in one task, ended in another.
        first, second = resource(), resource()
        await stage.mode.start(anext(first)).result()
        await stage.mode.start(first.aclose()).result()
        assert await queue(other) == []
        await broken(stage, await stage.mode.start(anext(second)).result())
        async with shared as lease:
            await stage.mode.start(second.aclose()).result()
            lease.ensure_held()
            assert await ids(other) == [lease.id]

    @only("threads")
    @driven
    async def test_trap_04_a_stack_that_ends_elsewhere_or_in_another_order_releases_its_own_lease(
        self, stage: Stage
    ) -> None:
        shared = stage.client().lock("x", ttl=LONG)
        assert isinstance(shared, Lock)
        first, second = ExitStack(), ExitStack()

        async def leave() -> None:
            first.close()

        first.enter_context(shared)
        await stage.mode.start(leave()).result(SOON)
        assert shared.queue() == []
        await broken(stage, second.enter_context(shared))
        with ExitStack() as third:
            lease = third.enter_context(shared)
            with pytest.raises(LeaseLost):
                second.close()  # it was there first, and so is not the last that was entered
            lease.ensure_held()
            assert await ids(shared) == [lease.id]

    @driven
    async def test_trap_05_two_acquisitions_through_one_lock_are_two_leases(
        self, stage: Stage
    ) -> None:
        lock, other = stage.client().lock("x", ttl=LONG), stage.client().lock("x", ttl=LONG)
        first = await acquire(lock)
        job = stage.mode.start(acquire(lock, 10))
        await until_queued(stage, lock, 2)
        await release(first)
        second = await job.result(SOON)
        assert first.id != second.id
        assert first.token != second.token
        await release(first)  # again, which is nothing
        second.ensure_held()
        assert await try_acquire(other) is None
        await release(second)
        third = await try_acquire(other)
        assert third is not None
        await release(third)

    @driven
    async def test_trap_05_a_second_acquisition_does_not_make_the_first_ones_loss_its_own(
        self, stage: Stage
    ) -> None:
        lock = stage.client().lock("x", ttl=LONG)
        first = await acquire(lock)
        await broken(stage, first)
        second = await acquire(lock)
        with pytest.raises(LeaseLost) as caught:
            await release(first)
        assert caught.value.reason is Loss.GONE
        second.ensure_held()
        assert await ids(stage.client().lock("x")) == [second.id]
        await release(second)

    @driven
    async def test_trap_11_no_error_path_removes_anothers_lease(self, stage: Stage) -> None:
        client, way = stage.shaky_client()
        lock = client.lock("x", ttl=LONG)
        stale = await acquire(lock)
        await broken(stage, stale)
        other = await acquire(stage.client().lock("x", ttl=LONG), SOON)
        with pytest.raises(LeaseLost):
            await release(stale)
        await self.alone(stage, other)
        assert await try_acquire(lock) is None
        await self.alone(stage, other)
        with pytest.raises(NotAcquired):
            await acquire(lock, 0.1)
        await self.alone(stage, other)
        way.lost_replies = 1_000_000
        with pytest.raises(EngineUnavailable):
            await try_acquire(lock)
        with pytest.raises(EngineUnavailable):
            await acquire(lock, 0.1)
        way.lost_replies = 0
        await self.alone(stage, other)
        await release(other)

    async def alone(self, stage: Stage, lease: AnyLease) -> None:
        """Wait until nothing but a lease is left on x: a waiter that gave up leaves soon."""
        lock = stage.client().lock("x")
        end = time.monotonic() + SLACK
        while len(found := await ids(lock)) > 1:
            assert lease.id in found
            assert time.monotonic() < end, found
            await stage.mode.sleep(0.01)
        assert found == [lease.id]
        lease.ensure_held()

    @driven
    async def test_trap_26_asking_again_for_what_one_holds_does_not_fence_off_the_holder(
        self, stage: Stage
    ) -> None:
        lock = stage.client().lock("x", ttl=LONG)

        async def never(_lease: AnyLease) -> None:
            pytest.fail("there is no re-entry")

        async def body(outer: AnyLease) -> int:
            first = outer.token
            with pytest.raises(Deadlock):
                await within(lock, never)
            assert outer.token == first
            assert [each.ticket for each in await holders(lock)] == [first]
            outer.ensure_held()
            return first

        first = await within(lock, body)
        following = await acquire(lock, 10)
        assert following.token > first
        await release(following)
