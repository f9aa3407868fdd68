"""The asyncio client: `connect` and `AsyncClient`. One line per method."""

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
from lockfast.port import SHARED, Shape, permits_of
from lockfast.primitives.inspection import Tie, broken, circles, every, revoke
from lockfast.primitives.lock import Holder, patience
from lockfast.primitives.rwlock import RWLock
from lockfast.runtime.aio import Aio, completed


class AsyncClient:
    """A connection to an engine, for the tasks of one event loop: share one in all of it."""

    def __init__(self, session: Session) -> None:
        """Use `connect` instead."""
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
        on_busy: Literal["wait", "raise", "skip"] = "wait",
    ) -> AsyncLock | AsyncSkip:
        """Describe a lock; the arguments are those of `Client.lock`."""
        timeout = patience(on_busy, timeout)
        lock = AsyncLock(self._session, AsyncLease, Shape(name, ttl), timeout, purpose, at_least)
        return AsyncSkip(lock) if on_busy == "skip" else lock

    def rlock(
        self, name: str, *, ttl: float = 30.0, timeout: float | None = None, purpose: str = ""
    ) -> AsyncRLock:
        """Describe a lock that the task which holds it may take again: one token at any depth."""
        return AsyncRLock(self._session, AsyncRLease, Shape(name, ttl), timeout, purpose)

    def rwlock(
        self, name: str, *, ttl: float = 30.0, timeout: float | None = None, purpose: str = ""
    ) -> RWLock[AsyncLock]:
        """Describe a read/write lock: `.read()` and `.write()` are locks."""
        return RWLock(
            name,
            lambda weight: AsyncLock(
                self._session, AsyncLease, Shape(name, ttl, SHARED, weight), timeout, purpose
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
    ) -> AsyncLock:
        """Describe `permits` of a semaphore of that capacity. Permits expire with their lease."""
        shape = Shape(name, ttl, permits_of(capacity, permits), permits)
        return AsyncLock(self._session, AsyncLease, shape, timeout, purpose)

    def lock_all(
        self, *names: str, ttl: float = 30.0, timeout: float | None = None, purpose: str = ""
    ) -> AsyncMultiLock:
        """Describe several locks that are taken together: all or nothing, and lost together."""
        return AsyncMultiLock(
            self._session, AsyncLease, AsyncMultiLease, names, ttl, timeout, purpose
        )

    def election(self, name: str, *, ttl: float = 30.0) -> AsyncElection:
        """Describe an election: whoever holds it leads, and its token is the term."""
        return AsyncElection(self._session, AsyncLease, name, ttl)

    async def inspect(self, prefix: str = "") -> list[Holder]:
        """Show who holds and who waits, on all names that begin with `prefix`."""
        return await every(self._session, prefix)

    async def deadlocks(self) -> list[list[Tie]]:
        """Find circles of waits that can never end, of all clients of the engine."""
        return await circles(self._session)

    async def breaks(self, name: str) -> list[Break]:
        """Return who broke that lock, and why; as `Client.breaks`."""
        return await broken(self._session, name)

    async def revoke(self, holder: Holder, reason: str) -> bool:
        """Take a claim away from whoever has it; as `Client.revoke`."""
        return await revoke(self._session, holder, reason)

    async def guarantees(self) -> Guarantees:
        """Ask the live server how it is set up, and say what that lets us promise."""
        return await self._session.guarantees()

    async def close(self) -> None:
        """Release what is held and disconnect; takes two seconds at most.

        If it is cancelled, it goes on in a task of its own, for as long as the loop runs.
        """
        await completed(self._session.close())

    async def __aenter__(self) -> Self:
        """Close at the end of the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()


def connect(
    url: str | None = None,
    *,
    engine: Factory | None = None,
    require: Level | str | None = None,
    deadlock_after: float | None = DEADLOCK,
) -> AsyncClient:
    """Make a client for the engine at `url`, or at LOCKFAST_URL. Nothing is opened before use.

    `engine`, `require`, `deadlock_after`: as for `lockfast.connect`.
    """
    runtime = Aio()
    open_engine, target = choose(url, engine, runtime)
    return AsyncClient(Session(open_engine, runtime, require, deadlock_after, target))
