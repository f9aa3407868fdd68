"""A crew: clients in some processes, which do what is measured when they are told."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from typing import Any, Self, TypeVar

from benchmarks.workers import Main, answer, orders, worker
from lockfast import aio
from lockfast.engines import opener
from lockfast.port import PORT, Ask, Engine, Standing
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target

Found = TypeVar("Found")
PROCESSES = 2
AT_ONCE = 100  # acquisitions of one client at the same time
PATIENCE = 300.0
PAUSE = 3.0  # seconds without a claim that queues, after which no more are expected


class Crew:
    """Some clients in `PROCESSES` processes. `with` ends them."""

    def __init__(self, url: str, at_once: int) -> None:
        """Start the processes. `at_once`: so many clients connect at the same time in each."""
        self._stack = ExitStack()
        main: Main = _member
        self._pipes = [
            self._stack.enter_context(worker(main, url, number, at_once))
            for number in range(PROCESSES)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def all(self, verb: str, *args: float) -> list[Any]:
        """Let every process do it. Counts are those of each."""
        for pipe in self._pipes:
            pipe.send((verb, *args))
        return [answer(pipe, PATIENCE) for pipe in self._pipes]

    def one(self, verb: str, *args: float) -> Any:  # noqa: ANN401  # what the verb returns
        """Let the first process do it."""
        self._pipes[0].send((verb, *args))
        return answer(self._pipes[0], PATIENCE)


# --- what the processes do ----------------------------------------------------------------------


def _member(pipe: Connection, url: str, number: int, at_once: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.disable()  # a process stands for hundreds: see `benchmarks.idle`
    asyncio.run(_Member(url, number, at_once).serve(pipe))


class _Member:
    port = PORT

    def __init__(self, url: str, number: int, at_once: int) -> None:
        self._url, self._number, self._at_once = url, number, at_once
        self._clients: list[aio.AsyncClient] = []
        self._leases: list[aio.AsyncLease] = []
        self._tasks: list[asyncio.Future[aio.AsyncLease]] = []
        self._calls = self._claims = self._queued = 0
        self._more = asyncio.Event()
        self._stage = 0

    async def serve(self, pipe: Connection) -> None:
        commands = orders(pipe)
        while (command := await asyncio.to_thread(next, commands, None)) is not None:
            verb, *args = command
            pipe.send(await getattr(self, verb)(*args))
        await self.drop()
        for client in self._clients:
            await client.close()

    def __call__(self, target: Target | None, runtime: Threads | Aio, /) -> Engine:
        """Make an engine that counts: nothing else tells how many renewals go in one call, and when
        a claim stands in the queue.
        """
        assert target is not None  # a benchmark has a URL
        engine = opener(target, runtime)()
        ask_for, ask_for_all, send = engine.claim, engine.claim_all, engine.renew

        async def claim(ask: Ask, deadline: float) -> Standing | None:
            return self._count(await ask_for(ask, deadline))

        async def claim_all(
            asks: Sequence[Ask], deadline: float
        ) -> list[Standing | Exception | None]:
            return [self._count(each) for each in await ask_for_all(asks, deadline)]

        async def renew(asks: Sequence[Ask], deadline: float) -> list[Standing | Exception | None]:
            self._calls += 1
            self._claims += len(asks)
            return await send(asks, deadline)

        for method in (claim, claim_all, renew):
            setattr(engine, method.__name__, method)
        return engine

    def _count(self, found: Found) -> Found:
        if isinstance(found, Standing) and found.ticket and not found.granted:
            self._queued += 1
            self._more.set()
        return found

    async def pid(self) -> int:
        return os.getpid()

    async def renewals(self) -> tuple[int, int]:
        """Return how many calls renewed how many claims."""
        return self._calls, self._claims

    async def connect(self, count: int) -> int:
        """Connect clients, until there are so many. What has to be opened is opened."""
        new = [aio.connect(self._url, engine=self) for _ in range(count - len(self._clients))]
        rest = iter(enumerate(new, len(self._clients)))

        async def some() -> None:
            for place, client in rest:
                lease = await self._lock(client, f"open {place}").acquire(timeout=60)
                await lease.release()

        await asyncio.gather(*(some() for _ in range(self._at_once)))
        self._clients += new
        return len(self._clients)

    def _lock(self, client: aio.AsyncClient, name: str, ttl: float = 30.0) -> aio.AsyncLock:
        return client.lock(f"{name} of {self._number}", ttl=ttl)

    async def pairs(self, seconds: float, count: int) -> int:
        """Acquire and release, one lock for each of so many clients."""
        end = time.monotonic() + seconds

        async def loop(place: int) -> int:
            lock, done = self._lock(self._clients[place], f"pair {place}"), 0
            while time.monotonic() < end:
                await (await lock.acquire()).release()
                done += 1
            return done

        return sum(await asyncio.gather(*map(loop, range(count))))

    async def handovers(self, seconds: float, names: int) -> int:
        """Acquire and release so many names, which three clients want all the time."""
        end = time.monotonic() + seconds

        async def loop(place: int) -> int:
            lock, done = self._lock(self._clients[place], f"over {place % names}"), 0
            while time.monotonic() < end:
                await (await lock.acquire()).release()
                done += 1
            return done

        return sum(await asyncio.gather(*map(loop, range(3 * names))))

    async def hold(self, first: int, last: int, ttl: float) -> int:
        """Let each of these clients hold a lease."""
        rest = iter(range(first, last))

        async def some() -> None:
            for place in rest:
                lock = self._lock(self._clients[place], f"hold {place}", ttl)
                self._leases.append(await lock.acquire(timeout=60))

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
        return len(self._leases)

    async def hold_many(self, count: int, ttl: float) -> int:
        """Let one client hold so many leases."""
        self._stage += 1
        rest = iter(range(count))

        async def some() -> None:
            for place in rest:
                lock = self._lock(self._clients[0], f"many {self._stage} {place}", ttl)
                # In a task of its own: a claim tells the engine what else its task holds.
                self._leases.append(await asyncio.ensure_future(lock.acquire(timeout=60)))

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
        return count

    async def wait(self, waiters: int, names: int, ttl: float, clients: int) -> int:
        """Let claims of so many clients wait for names that the first client holds."""
        self._stage += 1
        wanted = self._queued + waiters
        said = [f"queue {self._stage} {place}" for place in range(names)]
        for name in said:
            self._leases.append(await self._lock(self._clients[0], name, ttl).acquire())
        for place in range(waiters):
            lock = self._lock(self._clients[1 + place % clients], said[place % names], ttl)
            self._tasks.append(asyncio.ensure_future(lock.acquire()))
            if place % AT_ONCE == 0:
                await asyncio.sleep(0.02)
        with suppress(TimeoutError):  # a claim whose reply was lost is renewed, and not counted
            while self._queued < wanted:
                self._more.clear()
                await asyncio.wait_for(self._more.wait(), PAUSE)
        return waiters

    async def drop(self) -> int:
        """Withdraw all claims."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        rest = iter(self._leases)

        async def some() -> None:
            for lease in rest:
                await lease.release()

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
        self._leases.clear()
        return 0
