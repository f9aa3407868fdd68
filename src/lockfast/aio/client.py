"""The asyncio client: `connect` and `AsyncClient`."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from lockfast.aio.election import AsyncElection
from lockfast.aio.facade import (
    AsyncLease,
    AsyncLock,
    AsyncMultiLease,
    AsyncMultiLock,
    AsyncRLease,
    AsyncRLock,
    AsyncSkip,
)
from lockfast.claims.session import DEADLOCK, Session
from lockfast.engines import Factory, choose
from lockfast.guarantees import Level
from lockfast.port import Shape
from lockfast.primitives.client import ClientCore
from lockfast.runtime.aio import Aio, completed


class AsyncClient(ClientCore[AsyncLock, AsyncSkip, AsyncRLock, AsyncMultiLock, AsyncElection]):
    """A client of an engine, for asyncio. Share one client among all tasks of an event loop.

    The methods that talk to the engine are coroutines. In another event loop than the first, they
    raise `WrongLoop`. Where an example shows `with`, write `async with` here.

    Example:
        ::

            async with lockfast.aio.connect("redis://localhost:6379") as client:
                async with client.lock("report", ttl=10) as lease:
                    print(lease.token)
    """

    inspect = ClientCore._inspect
    deadlocks = ClientCore._deadlocks
    breaks = ClientCore._breaks
    revoke = ClientCore._revoke
    guarantees = ClientCore._guarantees

    async def close(self) -> None:
        """Release all leases and disconnect, within two seconds.

        It raises no exception if the engine does not answer. It logs which locks stay taken until
        their ttl is over. If the call is cancelled, closing continues in a task of its own while
        the loop runs.
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

    def _lock(
        self,
        shape: Shape,
        timeout: float | None,
        purpose: str,
        at_least: float,
        at_most: float | None,
    ) -> AsyncLock:
        return AsyncLock(self._session, AsyncLease, shape, timeout, purpose, at_least, at_most)

    def _skip(self, lock: AsyncLock) -> AsyncSkip:
        return AsyncSkip(lock)

    def _rlock(
        self, shape: Shape, timeout: float | None, purpose: str, at_most: float | None
    ) -> AsyncRLock:
        return AsyncRLock(self._session, AsyncRLease, shape, timeout, purpose, at_most=at_most)

    def _multilock(
        self,
        names: Sequence[str],
        ttl: float,
        timeout: float | None,
        purpose: str,
        at_most: float | None,
    ) -> AsyncMultiLock:
        return AsyncMultiLock(
            self._session, AsyncLease, AsyncMultiLease, names, ttl, timeout, purpose, at_most
        )

    def _election(self, name: str, ttl: float, at_most: float | None) -> AsyncElection:
        return AsyncElection(self._session, AsyncLease, name, ttl, at_most)


def connect(
    url: str | None = None,
    *,
    engine: Factory | None = None,
    require: Level | str | None = None,
    deadlock_after: float | None = DEADLOCK,
) -> AsyncClient:
    """Return a client for an engine, for asyncio. It connects on first use, not here.

    Args:
        url: The address of the engine, such as `redis://localhost:6379`. It defaults to the
            environment variable LOCKFAST_URL, or to the content of the file that LOCKFAST_URL_FILE
            names.
        engine: A factory for an engine of your own, see `lockfast.engines.Factory`. It needs no
            URL.
        require: `"efficiency"`, `"fenced"` or `"consensus"`. The first acquisition reads the setup
            of the live server, and raises `GuaranteeMissing` if the engine guarantees less.
        deadlock_after: Seconds after which a waiter that holds other locks searches for a deadlock.
            It repeats the search from time to time. None disables it.

    Returns:
        A client for the tasks of one event loop. Close it before the loop ends.

    Raises:
        ValueError: There is no URL, no engine for it, or an option or a level that does not exist.
        TypeError: `url`, `engine` or `deadlock_after` has the wrong type.
        ImportError: The engine's driver is not installed. The message names the extra to install.

    Example:
        ::

            async with lockfast.aio.connect("redis://localhost:6379") as client:
                async with client.lock("report", ttl=10) as lease:
                    print(lease.token)
    """
    runtime = Aio()
    open_engine, target = choose(url, engine, runtime)
    return AsyncClient(Session(open_engine, runtime, require, deadlock_after, target))
