"""A laboratory: lockfast on a memory engine and a clock that a test moves. For users' tests.

The clock runs by itself, and `clock.advance()` moves it from one beat of a heart to the next, so
that leases are renewed on the way as they would be. A client that is paused does not beat: that is
a process that was stopped, or a machine that slept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Self

from lockfast.aio import AsyncClient, AsyncMultiLease
from lockfast.blocking.client import Client, MultiLease
from lockfast.claims.session import DEADLOCK, Session
from lockfast.engines.memory import Memory
from lockfast.errors import Loss
from lockfast.primitives.lease import LeaseCore
from lockfast.runtime.base import Bell
from lockfast.runtime.drive import blocking
from lockfast.testing.clock import AsyncClock, Clock, LabEngine, LabTasks, LabThreads, Time

AnyLease = LeaseCore | MultiLease | AsyncMultiLease


class LabCore:
    """What both modes share."""

    def __init__(self, time: Time) -> None:
        """Begin with an empty engine."""
        self._time = time
        self._memory = Memory(time.now)

    def _engine(self, bell: Bell) -> LabEngine:
        engine = LabEngine(self._memory, bell)
        self._time.engines.append(engine)
        return engine

    @contextmanager
    def pause(self, client: Client | AsyncClient) -> Iterator[None]:
        """Keep a client's heart from beating for as long as the block lasts."""
        session = client._session
        session.enter()
        engine = session.engine
        if not isinstance(engine, LabEngine):
            raise TypeError("only a client of this laboratory can be paused")
        engine.pause(on=True)
        try:
            yield
        finally:
            engine.pause(on=False)

    async def _lose(self, lease: AnyLease) -> None:
        """Take a lease from its holder, as an operator does; its callbacks have run afterwards."""
        memory = self._memory
        leases: list[LeaseCore] = []
        if isinstance(lease, LeaseCore):
            leases.append(lease)
        else:
            leases += lease.leases.values()
        for each in leases:
            memory.run(partial(memory.queues.resign, each.claim.ask, memory.clock(), doubt=True))
            each._session.table.lose(each.claim, Loss.GONE)  # as a beat finds it
        await self._time.settle()


class Lab(LabCore):
    """A laboratory for threads: the fixture `lockfast_lab`, or `with Lab() as lab:`."""

    def __init__(self) -> None:
        """Begin with an empty engine, at the present."""
        self.clock = Clock()
        super().__init__(self.clock)
        self._clients: list[Client] = []
        self.client = self.connect()
        """A client to begin with."""

    lose = blocking(LabCore._lose)

    def connect(self, *, deadlock_after: float | None = DEADLOCK) -> Client:
        """Make another client, as another process would have it."""
        runtime = LabThreads(self.clock.now)
        session = Session(lambda: self._engine(runtime.bell()), runtime, None, deadlock_after)
        self._clients.append(Client(session))
        return self._clients[-1]

    def __enter__(self) -> Self:
        """Close every client at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close every client."""
        for client in self._clients:
            client.close()


class AsyncLab(LabCore):
    """A laboratory for tasks: `async with AsyncLab() as lab:`."""

    def __init__(self) -> None:
        """Begin with an empty engine, at the present."""
        self.clock = AsyncClock()
        super().__init__(self.clock)
        self._clients: list[AsyncClient] = []
        self.client = self.connect()
        """A client to begin with."""

    lose = LabCore._lose

    def connect(self, *, deadlock_after: float | None = DEADLOCK) -> AsyncClient:
        """Make another client, as another process would have it."""
        runtime = LabTasks(self.clock.now)
        session = Session(lambda: self._engine(runtime.bell()), runtime, None, deadlock_after)
        self._clients.append(AsyncClient(session))
        return self._clients[-1]

    async def __aenter__(self) -> Self:
        """Close every client at the end."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every client."""
        for client in self._clients:
            await client.close()
