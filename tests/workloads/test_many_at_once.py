"""A thousand random workloads: with lock_all no deadlock; one by one, each is found and named."""

from __future__ import annotations

import asyncio
import random

import pytest

import lockfast
from lockfast import aio

WORKLOADS = 1000
AT_ONCE = 100  # of them: with all at once, the event loop was blocked until leases expired
WORKERS = 3
NAMES = 4
LONG = 120.0  # seconds: longer than a test may take, or a loaded machine loses leases


def plans_of(number: int) -> list[list[str]]:
    """Give each worker of a workload some names, in an order of its own."""
    chance = random.Random(number)  # noqa: S311  # the same each time
    names = [f"{number}:{letter}" for letter in "abcd"[:NAMES]]
    return [chance.sample(names, chance.randint(2, 3)) for _ in range(WORKERS)]


def test_a_thousand_workloads_that_take_all_at_once_never_deadlock() -> None:
    asyncio.run(_ordered())


async def _ordered() -> None:
    inside: set[str] = set()

    async def work(client: aio.AsyncClient, plan: list[str]) -> None:
        async with client.lock_all(*plan, ttl=LONG) as lease:
            assert not inside & set(lease.tokens)
            inside.update(lease.tokens)
            await asyncio.sleep(0)
            inside.difference_update(lease.tokens)

    clients = [aio.connect("memory://ordered", deadlock_after=None) for _ in range(WORKERS)]
    for first in range(0, WORKLOADS, AT_ONCE):
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            for number in range(first, first + AT_ONCE):
                for client, plan in zip(clients, plans_of(number), strict=True):
                    tasks.create_task(work(client, plan))
    for client in clients:
        assert len(client._session.table) == 0
        await client.close()


class Unordered:
    """Workloads that take one by one, and what a bystander knows of them."""

    def __init__(self) -> None:
        self.holders: dict[str, asyncio.Task[object]] = {}
        self.waits: dict[asyncio.Task[object], str] = {}
        self.found = 0

    async def work(self, client: aio.AsyncClient, plan: list[str]) -> None:
        """Take all, in the order given; whoever gives way begins again."""
        while True:
            try:
                await self.once(client, plan)
            except lockfast.Deadlock:
                await asyncio.sleep(random.uniform(0.0, 0.01))  # noqa: S311  # no secret
            else:
                return

    async def once(self, client: aio.AsyncClient, plan: list[str]) -> None:
        me = asyncio.current_task()
        assert me is not None
        leases = []
        try:
            for name in plan:
                self.waits[me] = name
                leases.append(await client.lock(name, ttl=LONG).acquire())
                del self.waits[me]
                self.holders[name] = me
                await asyncio.sleep(0)
        except lockfast.Deadlock as error:
            self.judge(me, str(error))
            del self.waits[me]
            raise
        finally:
            for lease in leases:
                del self.holders[lease.name]
                await lease.release()

    def judge(self, victim: asyncio.Task[object], said: str) -> None:
        """Follow who waits for whom: it must lead back to the one that was told to give way."""
        self.found += 1
        each = victim
        for _ in range(WORKERS):
            name = self.waits[each]
            assert f"waits for {name!r}" in said
            each = self.holders[name]
            if each is victim:
                return
        pytest.fail(f"no circle: {said}")


def test_a_thousand_workloads_that_take_one_by_one_have_every_deadlock_found_and_named() -> None:
    assert asyncio.run(_unordered()) > WORKLOADS / 10


async def _unordered() -> int:
    world = Unordered()
    clients = [aio.connect("memory://unordered", deadlock_after=0.05) for _ in range(WORKERS)]
    for first in range(0, WORKLOADS, AT_ONCE):
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            for number in range(first, first + AT_ONCE):
                for client, plan in zip(clients, plans_of(number), strict=True):
                    tasks.create_task(world.work(client, plan))
    for client in clients:
        assert len(client._session.table) == 0
        await client.close()
    return world.found
