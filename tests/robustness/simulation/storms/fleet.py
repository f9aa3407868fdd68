"""The clients of a fleet, and what they do: real clients, which share one machine of no cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from lockfast.aio import AsyncClient, AsyncLease, AsyncMultiLease
from lockfast.claims.session import Session
from lockfast.engines.remote.engine import RemoteEngine
from lockfast.errors import EngineUnavailable, LeaseLost, NotAcquired
from lockfast.port import Engine
from lockfast.runtime.base import Runtime
from tests.robustness.simulation.storms.plan import CROWD, TTL, Plan
from tests.robustness.simulation.storms.rules import Rules

FOREVER = 1e6
SHARES = (("keeper", 0.45), ("jobs", 0.75), ("queue", 0.95), ("several", 1.0))
QUEUE = 10  # clients of a queue
CROWDED = "the name that all want"


class Client:
    """One client."""

    def __init__(  # noqa: PLR0913, PLR0917  # the whole of its world
        self,
        number: int,
        rack: int,
        opener: Callable[[], Engine],
        runtime: Runtime,
        rules: Rules,
        plan: Plan,
        rng: Random,
    ) -> None:
        self.number = number
        self.rack = rack
        self.session = Session(opener, runtime, deadlock_after=None)
        self._client = AsyncClient(self.session)
        self._rules = rules
        self._plan = plan
        self._rng = rng
        self._working = False
        """Whether it has something that the service must keep for it."""
        drawn = rng.random()
        self._role = next(role for role, share in SHARES if drawn < share)

    def __str__(self) -> str:
        return f"client {self.number} ({self._role})"

    @property
    def served(self) -> bool:
        """Whether it is connected, and has the lease that it keeps."""
        engine = self.session._opened
        if not isinstance(engine, RemoteEngine):
            return False
        line = engine._transport.line
        keeps = self._role in {"keeper", "several"}
        return line is not None and line.usable and (self._working or not keeps)

    async def live(self) -> None:
        """Start some time after the others, and work."""
        rng = self._rng
        await asyncio.sleep(rng.uniform(0.0, self._plan.start))
        engine = self._enter()
        self._rules.clients[engine.client] = self
        if CROWD in self._plan.storms:
            await self._one(CROWDED, 0.0, rng.choice((5.0, 10.0, 20.0)))
        if self._role == "keeper":
            await self._keep(f"keeper/{self.number}")
        elif self._role == "several":
            await self._keep(*(f"several/{self.number}/{each}" for each in range(3)))
        elif self._role == "jobs":
            for _ in range(2):
                await asyncio.sleep(rng.uniform(0.0, 20.0))
                await self._one(f"job/{self.number}", rng.uniform(0.1, 3.0), 10.0)
        else:
            queue = f"queue/{self.number // (5 * QUEUE)}"
            for _ in range(2):
                await self._one(queue, rng.uniform(0.1, 1.0), rng.choice((3.0, 10.0, 30.0)))
                await asyncio.sleep(rng.uniform(5.0, 20.0))

    def _enter(self) -> RemoteEngine:
        self.session.enter()
        engine = self.session.engine
        assert isinstance(engine, RemoteEngine)
        return engine

    async def _keep(self, *names: str) -> None:
        """Keep leases for good, and take them again if they are lost."""
        while True:
            await self._hold(names, FOREVER, 10.0)
            await asyncio.sleep(self._rng.uniform(0.5, 1.5))

    async def _one(self, name: str, seconds: float, timeout: float) -> None:
        await self._hold((name,), seconds, timeout)

    async def _hold(self, names: tuple[str, ...], seconds: float, timeout: float) -> None:
        """Acquire, work and release."""
        rules, client = self._rules, self._client
        rules.asks(self, names[0], timeout)
        lease: AsyncLease | AsyncMultiLease
        try:
            if len(names) == 1:
                lease = await client.lock(names[0], ttl=TTL).acquire(timeout=timeout)
            else:
                lease = await client.lock_all(*names, ttl=TTL).acquire(timeout=timeout)
        except (NotAcquired, EngineUnavailable) as error:
            rules.seen[type(error).__name__] += 1
            rules.told(self)
            return
        rules.told(self)
        leases = [lease] if isinstance(lease, AsyncLease) else list(lease.leases.values())
        try:
            async with lease:
                self._working = True
                for each in leases:
                    rules.enters(self, each)
                await asyncio.sleep(seconds)
                for each in leases:
                    rules.leaves(each)
        except LeaseLost:
            rules.lost(self, leases)
        except EngineUnavailable:
            rules.seen["releases without an answer"] += 1
        finally:
            self._working = False
