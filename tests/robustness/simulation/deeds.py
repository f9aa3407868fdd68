"""What a worker does with its client: lock in one way or another, work, let go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TypeVar

from lockfast.aio import AsyncClient, AsyncLease, AsyncLock
from lockfast.errors import StaleToken
from lockfast.guards.mark import Shown, refused, shown
from tests.robustness.simulation.network import Network
from tests.robustness.simulation.plan import LOCKS, PERMITS, READERS, Plan
from tests.robustness.simulation.register import Place, Register, Twin
from tests.robustness.simulation.world import Process

T = TypeVar("T")
TTLS = (0.6, 1.5, 4.0)
TIMEOUTS = (0.4, 2.0, 6.0, None)
CAPACITY = 3
KEPT = 0.5  # seconds for which some locks stay taken at least
THINK = 0.6  # seconds that a body works, at most
RESOURCE = 1.0  # seconds that a body waits for a resource


class Deeds:
    """A client's workers do these."""

    def __init__(  # noqa: PLR0913, PLR0917  # the whole of its world
        self,
        client: AsyncClient,
        process: Process,
        place: Place,
        network: Network,
        plan: Plan,
        rng: Random,
    ) -> None:
        self._client = client
        self._process = process
        self._place = place
        self._network = network
        self._plan = plan
        self._rng = rng

    async def once(self) -> None:
        """Acquire somehow, work, release."""
        rng = self._rng
        if self._plan.names == LOCKS and rng.random() < 0.3:
            await self._all()
            return
        lock = self._describe(rng.choice(self._plan.names))
        style = rng.random()
        if style < 0.15:
            lease = await lock.try_acquire()
            if lease is None:
                return
        elif style < 0.5:
            async with lock.acquire() as lease:
                await self._body(lease)
            return
        else:
            lease = await lock.acquire()
        try:
            await self._body(lease)
            if self._plan.names == LOCKS and rng.random() < 0.3:
                await self._beside(lease.name)
        finally:
            await lease.release()

    def _describe(self, name: str) -> AsyncLock:
        rng, client = self._rng, self._client
        ttl, timeout = rng.choice(TTLS), rng.choice(TIMEOUTS)
        if name == READERS:
            lock = client.rwlock(name, ttl=ttl, timeout=timeout)
            return lock.read() if rng.random() < 0.7 else lock.write()
        if name == PERMITS:
            if rng.random() < 0.03:  # refused as another kind, unless the name is free
                return client.lock(name, ttl=ttl, timeout=timeout)
            capacity = rng.choice((CAPACITY, CAPACITY, CAPACITY + 2))
            permits = rng.randint(1, CAPACITY)
            return client.semaphore(name, capacity, permits=permits, ttl=ttl, timeout=timeout)
        kept = rng.choice((0.0, 0.0, 0.0, KEPT))
        return client.lock(name, ttl=ttl, timeout=timeout, at_least=kept)

    async def _all(self) -> None:
        """Take all together."""
        rng = self._rng
        locks = self._client.lock_all(*LOCKS, ttl=rng.choice(TTLS), timeout=rng.choice(TIMEOUTS))
        async with locks.acquire() as together:
            for lease in together.leases.values():
                await self._body(lease)

    async def _beside(self, name: str) -> None:
        """Take the other one too, in whatever order: so circles come about."""
        (other,) = set(LOCKS) - {name}
        timeout = self._rng.choice((6.0, None))
        async with self._client.lock(other, ttl=self._rng.choice(TTLS), timeout=timeout) as lease:
            await self._body(lease)

    async def _body(self, lease: AsyncLease) -> None:
        """Work under a lease. It never asks whether it still holds: whoever was frozen goes on
        believing.
        """
        world = self._process.world
        if world.tracing:
            held = f"holds {lease.name}/{lease.id[20:]} with {lease.ticket % 10**9}"
            world.say(self._process.name, f"{held} for {lease.remaining:.3f} s")
        if lease.name == PERMITS:  # they cannot be fenced
            await asyncio.sleep(self._rng.uniform(0.0, 2.0 * THINK))
            return
        show = shown(lease)
        try:
            await (self._read(show) if show.shared else self._count(show))
        except StaleToken as error:
            raise refused(lease, error.current) from error

    async def _read(self, show: Shown) -> None:
        """Read twice: nothing may have changed in between."""
        register, _ = self._place.resources[show.name]
        read = await self._at(partial(register.seal, show))
        await asyncio.sleep(self._rng.uniform(0.0, THINK))
        if read is not None:
            await self._at(partial(register.reread, show, read))

    async def _count(self, show: Shown) -> None:
        """Add one to the counter and to its twin."""
        register, twin = self._place.resources[show.name]
        read = await self._at(lambda: (register.seal(show), twin.read()))
        for _ in range(self._rng.choice((1, 1, 2))):
            if read is None:
                return
            await asyncio.sleep(self._rng.uniform(0.0, THINK))
            read = await self._at(partial(_write, register, twin, show, *read))

    async def _at(self, act: Callable[[], T]) -> T | None:
        """Do something at the resources; None if no answer came."""
        future: asyncio.Future[T | None] = self._process.create_future()

        def arrive() -> None:
            try:
                result, error = act(), None
            except StaleToken as stale:
                result, error = None, stale
            self._network.send(self._process, "answer of a resource", lambda: back(result, error))

        def back(result: T | None, error: StaleToken | None) -> None:
            if not future.done():
                if error is None:
                    future.set_result(result)
                else:
                    future.set_exception(error)

        self._network.send(self._place.process, "access to a resource", arrive, once=True)
        timer = self._process.call_later(RESOURCE, back, None, None)
        try:
            return await future
        finally:
            timer.cancel()


def _write(register: Register, twin: Twin, show: Shown, read: int, twins: int) -> tuple[int, int]:
    twins = twin.write(twins)  # first: it asks nobody
    return register.write(show, read), twins
