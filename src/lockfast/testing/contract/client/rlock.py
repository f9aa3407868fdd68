"""The client's contract on re-entrant locks: one claim and one token at any depth."""

from __future__ import annotations

import gc
import time
import warnings

import pytest

from lockfast.core.validity import State
from lockfast.errors import Deadlock, LeaseLost, NotAcquired
from lockfast.testing.contract.client.loss import broken
from lockfast.testing.contract.client.times import LONG, SLACK
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import (
    AnyRLease,
    acquire,
    holders,
    queue,
    release,
    try_acquire,
    wait_lost,
    within,
)


class ReentrantContract(Contract):
    """Nested acquisitions, called frames, in one thread or task. The engine needs no queue."""

    @driven
    async def test_every_depth_has_one_claim_and_one_token(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        outer = await acquire(client.rlock("x", ttl=LONG))
        inner = await acquire(client.rlock("x", ttl=LONG))
        tried = await try_acquire(client.rlock("x", ttl=LONG))
        assert tried is not None
        # A higher inner token would fence off the outer frame (trap 26).
        assert outer.token == inner.token == tried.token
        assert [each.id for each in await queue(other.lock("x"))] == [outer.id]
        for frame in (tried, inner):
            await release(frame)
            await release(frame)  # a second release of the same frame does nothing
            outer.ensure_held()
            assert await try_acquire(other.lock("x", ttl=LONG)) is None
        await release(outer)
        assert outer.state is State.RELEASED
        again = await acquire(client.rlock("x", ttl=LONG), 0)
        assert again.token > outer.token
        await release(again)

    @driven
    async def test_the_last_frame_to_leave_gives_the_lock_back_whichever_it_is(
        self, stage: Stage
    ) -> None:
        client, other = stage.client(), stage.client()
        lock = client.rlock("x", ttl=LONG)
        outer, inner = await acquire(lock), await acquire(lock)
        await release(outer)
        inner.ensure_held()
        assert await try_acquire(other.lock("x", ttl=LONG)) is None
        await release(inner)
        await release(await acquire(other.lock("x", ttl=LONG), 0))

    @driven
    async def test_bodies_within_bodies(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        lock = client.rlock("x", ttl=LONG)

        async def outer(lease: AnyRLease) -> None:
            async def inner(again: AnyRLease) -> None:
                assert again.token == lease.token
                raise KeyError("of the inner body")

            with pytest.raises(KeyError):
                await within(lock, inner)
            lease.ensure_held()
            assert len(await holders(other.lock("x"))) == 1

        await within(lock, outer)
        assert await queue(other.lock("x")) == []

    @driven
    async def test_another_thread_or_task_stays_outside(self, stage: Stage) -> None:
        client = stage.client()
        lock = client.rlock("x", ttl=LONG)
        lease = await acquire(lock)
        assert await stage.mode.start(try_acquire(lock)).result() is None
        job = stage.mode.start(acquire(lock, 20))
        await stage.mode.sleep(0.05)
        assert not job.done()
        await release(lease)
        await release(await job.result())

    @driven
    async def test_whoever_comes_after_a_holder_that_has_ended_is_not_taken_for_it(
        self, stage: Stage
    ) -> None:
        # A new thread has the ident, and often the address, of the thread that ended before.
        lock = stage.client().rlock("x", ttl=LONG)
        lease = await stage.mode.start(acquire(lock)).result()
        for _ in range(20):
            assert await stage.mode.start(try_acquire(lock)).result() is None
        await release(lease)

    @driven
    async def test_an_inner_frame_of_a_lost_lease_is_told_and_not_let_in_anew(
        self, stage: Stage
    ) -> None:
        lock = stage.client().rlock("x", ttl=stage.brief)
        lease = await acquire(lock)
        await broken(stage, lease)
        assert await wait_lost(lease, stage.brief + SLACK)
        with pytest.raises(LeaseLost):
            await acquire(lock)
        with pytest.raises(LeaseLost):
            await release(lease)
        fresh = await acquire(lock, 5)
        assert fresh.token > lease.token
        await release(fresh)

    @driven
    async def test_a_loss_is_told_to_the_outermost_body(self, stage: Stage) -> None:
        lock = stage.client().rlock("x", ttl=stage.brief)

        async def outer(_lease: AnyRLease) -> None:
            async def inner(again: AnyRLease) -> None:
                await broken(stage, again)
                await stage.mode.until(lambda: again.state is State.LOST, "the loss", SLACK)
                await stage.mode.sleep(0.05)

            await within(lock, inner)

        with pytest.raises(LeaseLost):
            await within(lock, outer)
        await release(await acquire(lock, 5))

    @driven
    async def test_a_plain_lock_on_the_same_name_is_not_re_entered(self, stage: Stage) -> None:
        client = stage.client()
        lease = await acquire(client.rlock("x", ttl=LONG))
        with pytest.raises(Deadlock, match="already holds"):
            await acquire(client.lock("x", ttl=LONG))
        with pytest.raises(NotAcquired):
            await acquire(client.lock("x", ttl=LONG), 0)
        await release(lease)

    @driven
    async def test_a_frame_that_was_forgotten_does_not_keep_the_lock_for_ever(
        self, stage: Stage
    ) -> None:
        lock = stage.client().rlock("x", ttl=LONG)
        outer = await acquire(lock)
        await acquire(lock)  # nobody keeps this frame
        await release(outer)
        assert outer.state is State.RELEASED

    @driven
    async def test_a_re_entrant_lease_that_was_dropped_ends_by_itself_with_a_warning(
        self, stage: Stage
    ) -> None:
        ttl = stage.brief
        client, other = stage.client(), stage.client()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gc.disable()  # the drop must be noticed without it: no reference cycle keeps the lease
            try:
                lease = await acquire(client.rlock("x", ttl=ttl))
                del lease
                began = time.monotonic()
                following = await acquire(other.lock("x", ttl=LONG), ttl + SLACK)
            finally:
                gc.enable()
            assert time.monotonic() - began > ttl / 2
            await release(following)
        said = [str(each.message) for each in caught if each.category is RuntimeWarning]
        assert any("'x' was dropped without release()" in each for each in said), said
