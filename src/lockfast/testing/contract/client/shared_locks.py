"""The client's contract on shared locks: readers and writers, permits, and contention callbacks."""

from __future__ import annotations

import time

import pytest

from lockfast.errors import KindMismatch, NotAcquired
from lockfast.testing.contract.client.times import LONG, SLACK
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import (
    AnyLease,
    AnyLock,
    acquire,
    queue,
    release,
    try_acquire,
    within,
)


async def until_queued(stage: Stage, lock: AnyLock, count: int) -> None:
    """Wait until a lock has `count` claims, holders and waiters together."""
    end = time.monotonic() + 10
    while len(await queue(lock)) != count:
        assert time.monotonic() < end, await queue(lock)
        await stage.mode.sleep(0.01)


class ReadWriteContract(Contract):
    """A read/write lock: many readers or one writer, in the order of arrival."""

    @driven
    async def test_readers_share_and_a_writer_is_alone(self, stage: Stage) -> None:
        ours, theirs = (stage.client().rwlock("x", ttl=LONG) for _ in range(2))
        first = await acquire(ours.read())
        second = await acquire(theirs.read(), 0)
        assert await try_acquire(theirs.write()) is None
        await release(first)
        assert await try_acquire(theirs.write()) is None
        await release(second)
        writer = await acquire(ours.write(), 0)
        assert await try_acquire(theirs.read()) is None
        assert await try_acquire(theirs.write()) is None
        assert writer.token > second.ticket > first.ticket
        await release(writer)

    @driven
    async def test_a_reader_has_a_floor_and_no_token(self, stage: Stage) -> None:
        shared = stage.client().rwlock("x", ttl=LONG)
        first = await acquire(shared.read())
        second = await acquire(shared.read(), 0)
        assert first.fence_floor == first.ticket
        assert second.fence_floor == first.ticket  # the oldest live claim when it was granted
        with pytest.raises(TypeError, match="fence_floor"):
            _ = first.token
        await release(first)
        third = await acquire(shared.read(), 0)
        assert third.fence_floor == second.ticket
        await release(second)
        await release(third)

    @driven
    async def test_a_waiting_writer_is_not_overtaken_by_later_readers(self, stage: Stage) -> None:
        shared = [stage.client().rwlock("x", ttl=LONG) for _ in range(3)]
        reader = await acquire(shared[0].read())
        writing = stage.mode.start(acquire(shared[1].write(), 20))
        await until_queued(stage, shared[0].read(), 2)
        late = stage.mode.start(acquire(shared[2].read(), 20))
        await until_queued(stage, shared[0].read(), 3)
        assert await try_acquire(shared[0].read()) is None
        await release(reader)
        writer = await writing.result()
        assert not late.done()
        await release(writer)
        following = await late.result()
        assert following.ticket > writer.token
        assert following.fence_floor == following.ticket
        await release(following)

    @driven
    async def test_readers_and_writers_in_a_crowd_never_meet(self, stage: Stage) -> None:
        inside: list[str] = []
        clients = [stage.client() for _ in range(4)]

        async def work(number: int) -> None:
            lock = clients[number % 4].rwlock("x", ttl=LONG)
            kind = "writer" if number % 4 == 0 else "reader"

            async def body(_lease: AnyLease) -> None:
                assert not inside or (kind == "reader" and "writer" not in inside)
                inside.append(kind)
                await stage.mode.sleep(0.001)
                inside.remove(kind)

            for _ in range(3):
                await within(lock.write() if kind == "writer" else lock.read(), body)

        await stage.mode.together(*(work(number) for number in range(16)))
        assert await queue(clients[0].rwlock("x").read()) == []

    @driven
    async def test_another_kind_of_lock_on_the_same_name_is_refused(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=LONG))
        with pytest.raises(KindMismatch):
            await acquire(other.rwlock("x", ttl=LONG).read(), 1)
        for capacity in (1, 3):
            with pytest.raises(KindMismatch, match="a lock, and was requested as a semaphore"):
                await acquire(other.semaphore("x", capacity, ttl=LONG), 1)
        await release(lease)


class SemaphoreContract(Contract):
    """A semaphore never grants more permits than it has, and a permit ends with its lease."""

    @driven
    async def test_permits_are_given_up_to_the_capacity(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        two = await acquire(client.semaphore("x", 3, permits=2, ttl=LONG))
        one = await acquire(other.semaphore("x", 3, ttl=LONG), 0)
        with pytest.raises(NotAcquired):
            await acquire(other.semaphore("x", 3, ttl=LONG), 0)
        await release(two)
        assert await try_acquire(client.semaphore("x", 3, permits=3, ttl=LONG)) is None
        both = await acquire(client.semaphore("x", 3, permits=2, ttl=LONG), 0)
        with pytest.raises(TypeError, match="several"):
            _ = one.token
        for lease in (one, both):
            await release(lease)
        everything = await acquire(client.semaphore("x", 3, permits=3, ttl=LONG), 0)
        with pytest.raises(TypeError, match="several"):  # a larger one fits beside it
            _ = everything.token
        await release(everything)

    @driven
    async def test_a_semaphore_changes_its_size_in_use(self, stage: Stage) -> None:
        clients = [stage.client() for _ in range(4)]
        held: list[tuple[int, int]] = []

        async def work(number: int, capacity: int) -> None:
            lock = clients[number % 4].semaphore("x", capacity, permits=number % 3 + 1, ttl=LONG)

            async def body(_lease: AnyLease) -> None:
                mine = (number % 3 + 1, capacity)
                held.append(mine)
                assert sum(weight for weight, _ in held) <= max(each for _, each in held)
                await stage.mode.sleep(0.001)
                held.remove(mine)

            for _ in range(2):
                await within(lock, body)

        sizes = [5] * 8 + [8] * 8 + [3] * 8
        await stage.mode.together(*(work(number, size) for number, size in enumerate(sizes)))
        assert await queue(clients[0].semaphore("x", 5)) == []

    @driven
    async def test_whoever_asks_for_much_is_not_starved_by_those_who_ask_for_little(
        self, stage: Stage
    ) -> None:
        clients = [stage.client() for _ in range(3)]
        small = await acquire(clients[0].semaphore("x", 3, ttl=LONG))
        large = stage.mode.start(acquire(clients[1].semaphore("x", 3, permits=3, ttl=LONG), 20))
        await until_queued(stage, clients[0].semaphore("x", 3), 2)
        # A permit is free, but the claim for three permits comes first.
        assert await try_acquire(clients[2].semaphore("x", 3, ttl=LONG)) is None
        await release(small)
        await release(await large.result())

    @driven
    async def test_a_crowd_never_holds_more_permits_than_there_are(self, stage: Stage) -> None:
        clients = [stage.client() for _ in range(4)]
        held: list[int] = []

        async def work(number: int) -> None:
            permits = number % 3 + 1
            lock = clients[number % 4].semaphore("x", 4, permits=permits, ttl=LONG)

            async def body(_lease: AnyLease) -> None:
                held.append(permits)
                assert sum(held) <= 4
                await stage.mode.sleep(0.001)
                held.remove(permits)

            for _ in range(3):
                await within(lock, body)

        await stage.mode.together(*(work(number) for number in range(16)))
        assert await queue(clients[0].semaphore("x", 4)) == []

    @driven
    async def test_the_permits_of_a_client_that_is_cut_off_come_back(self, stage: Stage) -> None:
        client, way = stage.shaky_client()
        ttl = stage.brief
        lease = await acquire(client.semaphore("x", 2, permits=2, ttl=ttl))
        way.cut = True
        other = await acquire(stage.client().semaphore("x", 2, ttl=LONG), ttl + SLACK)
        assert lease.remaining == 0  # it ended for its holder before another client acquired
        way.cut = False
        await release(other)


class ContendedContract(Contract):
    """A holder learns that others wait for its lock."""

    @driven
    async def test_a_holder_is_told_once_that_somebody_waits(self, stage: Stage) -> None:
        ttl = stage.brief
        lease = await acquire(stage.client().lock("x", ttl=ttl))
        told: list[str] = []
        lease.on_contended(lambda: told.append("first"))
        await stage.mode.sleep(0.5 * ttl)  # longer than the time between two renewals
        assert (told, lease.waiters) == ([], 0)
        locks = [stage.client().lock("x", ttl=ttl) for _ in range(2)]

        async def follow(lock: AnyLock) -> None:
            await release(await acquire(lock, 20))

        jobs = [stage.mode.start(follow(lock)) for lock in locks]
        await stage.mode.until(lambda: lease.waiters == 2, "both are counted", ttl + SLACK)
        await stage.mode.until(lambda: told, "the callback", SLACK)
        lease.on_contended(lambda: told.append("second"))  # both wait already
        await stage.mode.until(lambda: len(told) == 2, "the late callback", SLACK)
        await stage.mode.sleep(0.5 * ttl)
        assert told == ["first", "second"]
        await release(lease)
        for job in jobs:
            await job.result()

    @driven
    async def test_a_lease_that_ended_has_no_waiters_to_tell_of(self, stage: Stage) -> None:
        ttl = stage.brief
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=ttl))
        told: list[str] = []
        lease.on_contended(lambda: told.append("too late"))
        await release(lease)
        following = await acquire(client.lock("x", ttl=ttl), 5)
        job = stage.mode.start(acquire(other.lock("x", ttl=ttl), 20))
        await stage.mode.until(lambda: following.waiters, "the next one's waiter", ttl + SLACK)
        assert told == []
        await release(following)
        await release(await job.result())
