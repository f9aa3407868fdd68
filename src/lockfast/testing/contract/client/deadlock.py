"""The client's contract on deadlocks: the client finds and names each, and reports no others."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from lockfast.errors import Deadlock, LeaseLost
from lockfast.testing.contract.client.shared_locks import until_queued
from lockfast.testing.contract.client.times import LONG
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import (
    AnyClient,
    AnyLock,
    acquire,
    deadlocks,
    queue,
    release,
    revoke,
    try_acquire,
)

SOON = 0.1  # seconds after which a waiter looks for a deadlock


class DeadlockContract(Contract):
    """Deadlocks between several clients and several kinds of locks."""

    async def take(
        self, stage: Stage, first: AnyLock, second: AnyLock, inside: list[str]
    ) -> str | None:
        """Acquire `first`, wait until three workers hold their first lock, and acquire `second`.

        Return the message of the `Deadlock`, or None if there was none.
        """
        lease = await acquire(first, 10)
        inside.append(first.name)
        try:
            await stage.mode.until(lambda: len(inside) >= 3, "all hold their first")
            await release(await acquire(second))
        except Deadlock as error:
            return str(error)
        finally:
            await release(lease)
        return None

    @driven
    async def test_a_circle_over_three_clients_and_two_kinds_of_locks_is_found_and_named(
        self, stage: Stage
    ) -> None:
        one, two, three = (stage.client(deadlock_after=SOON) for _ in range(3))
        inside: list[str] = []
        began = time.monotonic()
        found = await stage.mode.together(
            self.take(stage, one.lock("a", ttl=LONG), one.rwlock("b", ttl=LONG).write(), inside),
            self.take(stage, two.rwlock("b", ttl=LONG).read(), two.lock("c", ttl=LONG), inside),
            self.take(stage, three.lock("c", ttl=LONG), three.lock("a", ttl=LONG), inside),
        )
        assert time.monotonic() - began < 10
        (said,) = [each for each in found if each is not None]
        for name in ("a", "b", "c"):
            assert f"waits for {name!r}, which" in said
            await until_queued(stage, one.lock(name), 0)
        assert said.count(" holds") == 3

    @driven
    async def test_whoever_looks_from_outside_sees_the_circle_and_nothing_else(
        self, stage: Stage
    ) -> None:
        one, two, three = (stage.client(deadlock_after=None) for _ in range(3))
        looker = stage.client()
        inside: list[str] = []

        async def cross(client: AnyClient, first: str, second: str) -> None:
            lease = await acquire(client.lock(first, ttl=LONG))
            inside.append(first)
            await stage.mode.until(lambda: len(inside) >= 2, "both hold their first")
            await release(await acquire(client.lock(second, ttl=LONG)))
            with suppress(LeaseLost):  # one of these leases is revoked below
                await release(lease)

        jobs = [stage.mode.start(cross(one, "a", "b")), stage.mode.start(cross(two, "b", "a"))]
        for name in ("a", "b"):
            await until_queued(stage, looker.lock(name), 2)
        jobs.append(stage.mode.start(cross(three, "c", "a")))  # waits too, but is in no circle
        await until_queued(stage, looker.lock("a"), 3)
        (circle,) = await deadlocks(looker)
        assert sorted((tie.waiting.name, tie.blocker.name) for tie in circle) == [
            ("a", "a"),
            ("b", "b"),
        ]
        assert all(tie.blocker.granted for tie in circle)
        assert "waits for 'a', which" in "; ".join(map(str, circle))
        assert await revoke(looker, circle[0].blocker, "one must give way")
        for job in jobs:
            await job.result()
        assert await deadlocks(looker) == []

    @driven
    async def test_it_is_the_youngest_claim_that_gives_way(self, stage: Stage) -> None:
        one, two = (stage.client(deadlock_after=SOON) for _ in range(2))

        async def first() -> int:
            lease = await acquire(one.lock("a", ttl=LONG))
            await until_queued(stage, one.lock("b"), 1)
            second = await acquire(one.lock("b", ttl=LONG))
            for each in (second, lease):
                await release(each)
            return second.ticket

        async def last() -> str:
            lease = await acquire(two.lock("b", ttl=LONG))
            await until_queued(stage, two.lock("b"), 2)
            with pytest.raises(Deadlock) as caught:
                await acquire(two.lock("a", ttl=LONG))
            lease.ensure_held()
            await release(lease)
            return str(caught.value)

        await stage.mode.together(first(), last())

    @driven
    async def test_a_reader_behind_a_writer_that_waits_for_it_is_a_circle(
        self, stage: Stage
    ) -> None:
        one, two = (stage.client(deadlock_after=SOON) for _ in range(2))
        reader = await acquire(one.rwlock("x", ttl=LONG).read())
        writing = stage.mode.start(acquire(two.rwlock("x", ttl=LONG).write(), 20))
        await until_queued(stage, one.rwlock("x").read(), 2)
        with pytest.raises(Deadlock, match="already holds"):
            await acquire(one.rwlock("x", ttl=LONG).read())
        other = await acquire(one.lock("y", ttl=LONG))
        assert not writing.done()
        await release(reader)
        await release(await writing.result())
        await release(other)

    @driven
    async def test_a_semaphore_with_a_holder_that_can_still_move_is_no_circle(
        self, stage: Stage
    ) -> None:
        one, two, free = (stage.client(deadlock_after=SOON) for _ in range(3))
        mover = await acquire(free.semaphore("s", 2, ttl=LONG))

        async def first() -> None:
            permit = await acquire(one.semaphore("s", 2, ttl=LONG))
            await until_queued(stage, one.lock("a"), 1)
            await release(await acquire(one.lock("a", ttl=LONG), 20))
            await release(permit)

        async def second() -> None:
            lease = await acquire(two.lock("a", ttl=LONG))
            await until_queued(stage, two.semaphore("s", 2), 2)
            await release(await acquire(two.semaphore("s", 2, ttl=LONG), 20))
            await release(lease)

        jobs = [stage.mode.start(first()), stage.mode.start(second())]
        await until_queued(stage, free.semaphore("s", 2), 3)
        await until_queued(stage, free.lock("a"), 2)
        await stage.mode.sleep(4 * SOON)  # both look for a deadlock more than once
        assert not any(job.done() for job in jobs)
        await release(mover)
        for job in jobs:
            await job.result()

    @driven
    async def test_permits_that_can_never_be_had_beside_ones_own_are_a_circle(
        self, stage: Stage
    ) -> None:
        one, two = (stage.client(deadlock_after=SOON) for _ in range(2))
        head = await acquire(two.semaphore("s", 3, ttl=LONG))
        own = await acquire(one.semaphore("s", 3, permits=2, ttl=LONG))
        with pytest.raises(Deadlock, match="'s'"):  # two more permits never fit beside its own two
            await acquire(one.semaphore("s", 3, permits=2, ttl=LONG))
        await release(own)
        await release(head)

    @driven
    async def test_a_long_line_without_a_circle_is_no_deadlock(self, stage: Stage) -> None:
        clients = [stage.client(deadlock_after=SOON) for _ in range(4)]
        first = await acquire(clients[0].lock("x 0", ttl=LONG))

        async def follow(client: AnyClient, number: int) -> None:
            lease = await acquire(client.lock(f"x {number}", ttl=LONG))
            await release(await acquire(client.lock(f"x {number - 1}", ttl=LONG), 20))
            await release(lease)

        jobs = []
        for number in (1, 2, 3):
            jobs.append(stage.mode.start(follow(clients[number], number)))
            await until_queued(stage, clients[0].lock(f"x {number - 1}"), 2)
        await stage.mode.sleep(3 * SOON)
        assert not any(job.done() for job in jobs)
        await release(first)
        for job in jobs:
            await job.result()

    @driven
    async def test_what_another_thread_or_task_will_release_may_be_waited_for_with_a_timeout(
        self, stage: Stage
    ) -> None:
        lock = stage.client(deadlock_after=SOON).lock("x", ttl=LONG)
        lease = await acquire(lock)

        async def give_back() -> None:
            await stage.mode.sleep(3 * SOON)
            await release(lease)

        job = stage.mode.start(give_back())
        await release(await acquire(lock, 20))
        await job.result()

    @driven
    async def test_whoever_takes_all_at_once_begins_again_when_it_meets_a_circle(
        self, stage: Stage
    ) -> None:
        one, two, three = (stage.client(deadlock_after=SOON) for _ in range(3))
        gate = await acquire(three.lock("b", ttl=LONG))

        async def cross() -> None:
            lease = await acquire(one.lock("c", ttl=LONG))
            await until_queued(stage, one.lock("b"), 2)  # `taking` holds a now, and waits for b
            crossed = await acquire(one.lock("a", ttl=LONG), 20)
            lease.ensure_held()  # so it was `taking` that gave way
            assert not taking.done()
            await release(crossed)
            await release(lease)

        crossing = stage.mode.start(cross())
        await until_queued(stage, one.lock("c"), 1)
        taking = stage.mode.start(acquire(two.lock_all("a", "b", "c", ttl=LONG), 20))
        await until_queued(stage, one.lock("a"), 2)
        # Now `taking` gets b and waits for c. That claim closes the circle and is its youngest, so
        # `taking` gives a and b back. It begins again, and gets all three once `cross` has ended.
        await release(gate)
        await crossing.result()
        every = await taking.result()
        for name in ("a", "b", "c"):
            assert await try_acquire(one.lock(name, ttl=LONG)) is None
        await release(every)

    @driven
    async def test_a_circle_through_what_was_held_before_is_told_and_not_tried_for_ever(
        self, stage: Stage
    ) -> None:
        one, two = (stage.client(deadlock_after=SOON) for _ in range(2))

        async def first() -> str:
            lease = await acquire(one.lock("z", ttl=LONG))
            await until_queued(stage, one.lock("b"), 1)
            await until_queued(stage, one.lock("z"), 2)
            with pytest.raises(Deadlock) as caught:
                await acquire(one.lock_all("a", "b", ttl=LONG))
            await release(lease)
            return str(caught.value)

        async def second() -> None:
            lease = await acquire(two.lock("b", ttl=LONG))
            try:
                await until_queued(stage, two.lock("z"), 1)
                await release(await acquire(two.lock("z", ttl=LONG)))
            finally:
                await release(lease)

        jobs = stage.mode.start(first()), stage.mode.start(second())
        assert "'z'" in await jobs[0].result()
        await jobs[1].result()
        assert await queue(one.lock("a")) == []
