"""Labs: lockfast on a memory engine and a clock that a test moves, for tests of users' programs.

The clock runs by itself. `clock.advance()` moves it from one renewal to the next, so that clients
renew their leases on the way, as they would in that time. A client that is paused does not renew,
like a process that was stopped or a machine that was suspended.
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
    """What `Lab` and `AsyncLab` share."""

    def __init__(self, time: Time) -> None:
        """Start with an empty engine."""
        self._time = time
        self._memory = Memory(time.now)

    def _engine(self, bell: Bell) -> LabEngine:
        engine = LabEngine(self._memory, bell)
        self._time.engines.append(engine)
        return engine

    @contextmanager
    def pause(self, client: Client | AsyncClient) -> Iterator[None]:
        """Keep a client from renewing its leases until the block ends, like a stopped process.

        Args:
            client: A client of this lab.

        Yields:
            None.

        Raises:
            TypeError: The client was not made by a lab.
            ClientClosed: The client was closed.

        Example:
            ::

                with Lab() as lab:
                    lease = lab.client.lock("job", ttl=30).acquire()
                    with lab.pause(lab.client):
                        lab.clock.advance(31)
                    assert lease.state is lockfast.State.LOST
        """
        session = client._session
        session.enter()
        engine = session.engine
        if not isinstance(engine, LabEngine):
            raise TypeError("only a client of this lab can be paused")
        engine.pause(on=True)
        try:
            yield
        finally:
            engine.pause(on=False)

    async def _lose(self, lease: AnyLease) -> None:
        """Take a lease away from its holder, as `lockfast break` does.

        The callbacks of `on_lost` have run when this returns.

        Args:
            lease: A lease of a client of this lab, or a `MultiLease`.
        """
        memory = self._memory
        leases: list[LeaseCore] = []
        if isinstance(lease, LeaseCore):
            leases.append(lease)
        else:
            leases += lease.leases.values()
        for each in leases:
            memory.run(partial(memory.queues.resign, each.claim.ask, memory.clock(), doubt=True))
            each._session.table.lose(each.claim, Loss.GONE)  # as a renewal would find
        await self._time.settle()


class Lab(LabCore):
    """A lab for blocking code: the fixture `lockfast_lab`, or `with Lab() as lab:`.

    Attributes:
        clock: The clock of the lab.

    Example:
        ::

            with Lab() as lab, lab.client.lock("job", ttl=30) as lease:
                lab.clock.advance(3600)
                lease.ensure_held()  # the client has renewed it for an hour
    """

    def __init__(self) -> None:
        """Start with an empty engine, at the present."""
        self.clock = Clock()
        super().__init__(self.clock)
        self._clients: list[Client] = []
        self.client = self.connect()
        """The first client. `connect` makes more."""

    lose = blocking(LabCore._lose)

    def connect(self, *, deadlock_after: float | None = DEADLOCK) -> Client:
        """Return another client of the same engine, as another process would have.

        Args:
            deadlock_after: As for `lockfast.connect`.

        Returns:
            The client. The lab closes it.
        """
        runtime = LabThreads(self.clock.now)
        session = Session(lambda: self._engine(runtime.bell()), runtime, None, deadlock_after)
        self._clients.append(Client(session))
        return self._clients[-1]

    def __enter__(self) -> Self:
        """Return the lab. It closes every client when the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close every client."""
        for client in self._clients:
            client.close()


class AsyncLab(LabCore):
    """A lab for asyncio: `async with AsyncLab() as lab:`.

    Attributes:
        clock: The clock of the lab. Its `advance` is a coroutine.

    Example:
        ::

            async with AsyncLab() as lab:
                async with lab.client.lock("job", ttl=30) as lease:
                    await lab.clock.advance(3600)
                    lease.ensure_held()
    """

    def __init__(self) -> None:
        """Start with an empty engine, at the present."""
        self.clock = AsyncClock()
        super().__init__(self.clock)
        self._clients: list[AsyncClient] = []
        self.client = self.connect()
        """The first client. `connect` makes more."""

    lose = LabCore._lose

    def connect(self, *, deadlock_after: float | None = DEADLOCK) -> AsyncClient:
        """Return another client of the same engine, as another process would have.

        Args:
            deadlock_after: As for `lockfast.connect`.

        Returns:
            The client. The lab closes it.
        """
        runtime = LabTasks(self.clock.now)
        session = Session(lambda: self._engine(runtime.bell()), runtime, None, deadlock_after)
        self._clients.append(AsyncClient(session))
        return self._clients[-1]

    async def __aenter__(self) -> Self:
        """Return the lab. It closes every client when the block ends."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every client."""
        for client in self._clients:
            await client.close()
