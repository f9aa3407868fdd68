"""The asyncio client: `connect` and `AsyncClient`."""

from __future__ import annotations

from types import TracebackType
from typing import Literal, Self, overload

from lockfast.aio.facade import (
    AsyncElection,
    AsyncLease,
    AsyncLock,
    AsyncMultiLease,
    AsyncMultiLock,
    AsyncRLease,
    AsyncRLock,
    AsyncSkip,
)
from lockfast.breaks import Break
from lockfast.claims.session import DEADLOCK, Session
from lockfast.engines import Factory, choose
from lockfast.guarantees import Guarantees, Level
from lockfast.port import SHARED, Kind, Shape, permits_of
from lockfast.primitives.inspection import Tie, broken, circles, every, revoke
from lockfast.primitives.lock import Holder, patience
from lockfast.primitives.rwlock import RWLock
from lockfast.runtime.aio import Aio, completed


class AsyncClient:
    """A client of an engine, for asyncio. Share one client among all tasks of an event loop."""

    def __init__(self, session: Session) -> None:
        """Take a session. Programs call `connect` instead."""
        self._session = session

    @overload
    def lock(
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_least: float = 0.0,
        at_most: float | None = None,
        on_busy: Literal["wait", "raise"] = "wait",
    ) -> AsyncLock: ...

    @overload
    def lock(
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_least: float = 0.0,
        at_most: float | None = None,
        on_busy: Literal["skip"],
    ) -> AsyncSkip: ...

    def lock(  # noqa: PLR0913  # each is a word that users look for
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_least: float = 0.0,
        at_most: float | None = None,
        on_busy: Literal["wait", "raise", "skip"] = "wait",
    ) -> AsyncLock | AsyncSkip:
        """Return a lock. Use it in `async with`, as a decorator, or await its `acquire()`.

        The options are those of `Client.lock`.
        """
        timeout = patience(on_busy, timeout)
        shape = Shape(name, ttl)
        lock = AsyncLock(self._session, AsyncLease, shape, timeout, purpose, at_least, at_most)
        return AsyncSkip(lock) if on_busy == "skip" else lock

    def rlock(
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_most: float | None = None,
    ) -> AsyncRLock:
        """Return a re-entrant lock: the task that holds it can acquire it again.

        All acquisitions of the task share one token. The options are those of `Client.lock`.
        """
        return AsyncRLock(
            self._session, AsyncRLease, Shape(name, ttl), timeout, purpose, at_most=at_most
        )

    def rwlock(
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_most: float | None = None,
    ) -> RWLock[AsyncLock]:
        """Return a read/write lock. Its `read()` and `write()` return the two locks."""
        return RWLock(
            name,
            lambda weight: AsyncLock(
                self._session,
                AsyncLease,
                Shape(name, ttl, Kind.READ_WRITE, SHARED, weight),
                timeout,
                purpose,
                at_most=at_most,
            ),
        )

    def semaphore(  # noqa: PLR0913  # each is a word that users look for
        self,
        name: str,
        capacity: int,
        *,
        permits: int = 1,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_most: float | None = None,
    ) -> AsyncLock:
        """Return a lock on `permits` of the `capacity` permits of a semaphore.

        The options are those of `Client.semaphore`.
        """
        shape = Shape(name, ttl, Kind.SEMAPHORE, permits_of(capacity, permits), permits)
        return AsyncLock(self._session, AsyncLease, shape, timeout, purpose, at_most=at_most)

    def lock_all(
        self,
        *names: str,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_most: float | None = None,
    ) -> AsyncMultiLock:
        """Return a lock on several names, which are acquired together, all or nothing.

        If one of the leases is lost, they count as lost together.
        """
        return AsyncMultiLock(
            self._session, AsyncLease, AsyncMultiLease, names, ttl, timeout, purpose, at_most
        )

    def election(
        self, name: str, *, ttl: float = 30.0, at_most: float | None = None
    ) -> AsyncElection:
        """Return a leader election. See `Client.election`."""
        return AsyncElection(self._session, AsyncLease, name, ttl, at_most)

    async def inspect(self, prefix: str = "") -> list[Holder]:
        """Return the holders and waiters of all locks whose names begin with `prefix`.

        See `Client.inspect`.
        """
        return await every(self._session, prefix)

    async def deadlocks(self) -> list[list[Tie]]:
        """Return all present deadlocks, among all clients of the engine. See `Client.deadlocks`."""
        return await circles(self._session)

    async def breaks(self, name: str) -> list[Break]:
        """Return who broke a lock and why, the newest record first. See `Client.breaks`."""
        return await broken(self._session, name)

    async def revoke(self, holder: Holder, reason: str) -> bool:
        """Break a lock: remove the claim of a holder or waiter. See `Client.revoke`."""
        return await revoke(self._session, holder, reason)

    async def guarantees(self) -> Guarantees:
        """Read the setup of the live server, and return what the engine guarantees with it."""
        return await self._session.guarantees()

    async def close(self) -> None:
        """Release all leases and disconnect. This takes two seconds at most.

        If the call is cancelled, closing continues in a task of its own while the loop runs.
        """
        await completed(self._session.close())

    async def __aenter__(self) -> Self:
        """Return the client. It is closed at the end of the `async with` block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the client."""
        await self.close()


def connect(
    url: str | None = None,
    *,
    engine: Factory | None = None,
    require: Level | str | None = None,
    deadlock_after: float | None = DEADLOCK,
) -> AsyncClient:
    """Return a client for an engine. It connects on first use, not here.

    The arguments are those of `lockfast.connect`.
    """
    runtime = Aio()
    open_engine, target = choose(url, engine, runtime)
    return AsyncClient(Session(open_engine, runtime, require, deadlock_after, target))
