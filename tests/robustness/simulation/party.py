"""The clients: each a process with a real lockfast client, and workers who contend by it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TypeVar

from lockfast.aio import AsyncClient, AsyncLease
from lockfast.errors import LockfastError, StaleToken
from lockfast.guards.mark import Shown, refused, shown
from lockfast.live import Live
from lockfast.runtime.aio import Aio
from lockfast.session import Session
from tests.robustness.simulation.network import Network
from tests.robustness.simulation.plan import FAULTY, Plan
from tests.robustness.simulation.register import Register, Twin
from tests.robustness.simulation.remote import Remote
from tests.robustness.simulation.server import Server
from tests.robustness.simulation.world import FOREVER, Process, World

T = TypeVar("T")
TTLS = (0.6, 1.5, 4.0)
LONGEST_TTL = max(TTLS)
THINK = 0.6  # seconds that a body works, at most
RESOURCE = 1.0  # seconds that a body waits for a resource


class Party:
    """One client process."""

    def __init__(  # noqa: PLR0913, PLR0917  # the whole of its world
        self, number: int, server: Server, network: Network, plan: Plan, world: World, rng: Random
    ) -> None:
        self.process = Process.new(
            world, f"client {number}", start=1000.0 * number, rate=1.0 + plan.drifts[number]
        )
        self._world = world
        self._network = network
        self._plan = plan
        self._rng = rng
        prefix = f"{number + 1:022x}"
        remote = Remote(self.process, server, prefix)
        self.session = Session(lambda: remote, Aio(self.process.time))
        self.session._prefix = prefix  # the same in every replay
        self.client = AsyncClient(self.session)
        self.resources: dict[str, tuple[Register, Twin]] = {}
        self.place: Process
        self.done: Callable[[], None]
        self.working = plan.workers
        self.crashed = False
        self.believed: dict[str, float] = {}
        """Until when it believed in each claim, when the witness last looked."""

    def crash(self) -> None:
        """Never go on."""
        self.crashed = True
        self.process.frozen = FOREVER
        self.working = 0
        self.done()

    def lives(self) -> list[Live]:
        """List its claims; a process that crashed has none."""
        return [] if self.crashed else list(self.session.claims._by_id.values())

    def begin(self) -> None:
        for _ in range(self._plan.workers):
            self.process.create_task(self._work())

    async def _work(self) -> None:
        rng = self._rng
        while self._world.now < FAULTY:
            await asyncio.sleep(rng.expovariate(3.0))
            task = self.process.create_task(self._once())
            if rng.random() < 0.15:
                self.process.call_later(rng.uniform(0.0, 2.0), task.cancel)
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                if self._world.tracing:
                    self._world.say(self.process.name, f"is told {type(error).__name__}: {error}")
                if not isinstance(error, LockfastError):
                    raise error
        self.working -= 1
        self.done()

    async def _once(self) -> None:
        """Acquire somehow, work, release."""
        rng = self._rng
        lock = self.client.lock(
            rng.choice(self._plan.names),
            ttl=rng.choice(TTLS),
            timeout=rng.choice((0.4, 2.0, 6.0, None)),
        )
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
        finally:
            await lease.release()

    async def _body(self, lease: AsyncLease) -> None:
        """Add one to the counter and to its twin. It never asks whether it still holds: whoever
        was frozen goes on believing.
        """
        rng = self._rng
        if self._world.tracing:
            held = f"holds {lease.name}/{lease.id[20:]} with {lease.ticket % 10**9}"
            self._world.say(self.process.name, f"{held} for {lease.remaining:.3f} s")
        register, twin = self.resources[lease.name]
        show = shown(lease)
        try:
            read = await self._at(lambda: (register.seal(show), twin.read()))
            for _ in range(rng.choice((1, 1, 2))):
                if read is None:
                    return
                await asyncio.sleep(rng.uniform(0.0, THINK))
                read = await self._at(partial(_write, register, twin, show, *read))
        except StaleToken as error:
            raise refused(lease, error.current) from error

    async def _at(self, act: Callable[[], T]) -> T | None:
        """Do something at the resources; None if no answer came."""
        future: asyncio.Future[T | None] = self.process.create_future()

        def arrive() -> None:
            try:
                result, error = act(), None
            except StaleToken as stale:
                result, error = None, stale
            self._network.send(self.process, "answer of a resource", lambda: back(result, error))

        def back(result: T | None, error: StaleToken | None) -> None:
            if not future.done():
                if error is None:
                    future.set_result(result)
                else:
                    future.set_exception(error)

        self._network.send(self.place, "access to a resource", arrive, once=True)
        timer = self.process.call_later(RESOURCE, back, None, None)
        try:
            return await future
        finally:
            timer.cancel()


def _write(register: Register, twin: Twin, show: Shown, read: int, twins: int) -> tuple[int, int]:
    twins = twin.write(twins)  # first: it asks nobody
    return register.write(show, read), twins
