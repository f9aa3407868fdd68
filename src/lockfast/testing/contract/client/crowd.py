"""The client's contract on mutual exclusion between many threads or tasks."""

from __future__ import annotations

from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import AnyLease, AnyLock, acquire, queue, release, within

WORKERS = 32
ROUNDS = 4


class Counter:
    """A counter without a lock of its own: it loses counts if two workers are inside at once."""

    def __init__(self, stage: Stage) -> None:
        """Start at 0."""
        self.value = 0
        self.tokens: list[int] = []
        self._stage = stage

    async def count(self, lock: AnyLock) -> None:
        """Count up `ROUNDS` times under the lock. Others can run between the read and the write."""
        for _ in range(ROUNDS):
            await within(lock, self._count_one)

    async def _count_one(self, lease: AnyLease) -> None:
        seen = self.value
        await self._stage.mode.sleep(0.0005)
        self.value = seen + 1
        self.tokens.append(lease.token)


class CrowdContract(Contract):
    """Mutual exclusion, while the engine is healthy."""

    @driven
    async def test_many_workers_of_one_client_exclude_each_other(self, stage: Stage) -> None:
        lock, counter = stage.client().lock("x", ttl=30.0), Counter(stage)
        await stage.mode.together(*(counter.count(lock) for _ in range(WORKERS)))
        assert counter.value == WORKERS * ROUNDS
        assert counter.tokens == sorted(set(counter.tokens))
        assert await queue(lock) == []

    @driven
    async def test_many_clients_exclude_each_other(self, stage: Stage) -> None:
        locks, counter = [stage.client().lock("x", ttl=30.0) for _ in range(8)], Counter(stage)
        await stage.mode.together(*(counter.count(lock) for lock in locks * 2))
        assert counter.value == 16 * ROUNDS
        assert counter.tokens == sorted(set(counter.tokens))

    @driven
    async def test_workers_on_names_of_their_own_do_not_meet(self, stage: Stage) -> None:
        client = stage.client()

        async def work(number: int) -> None:
            for _ in range(ROUNDS):
                lease = await acquire(client.lock(f"x {number}", ttl=30.0), 0)
                await release(lease)

        await stage.mode.together(*(work(number) for number in range(WORKERS)))
