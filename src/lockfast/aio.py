"""The asyncio client: `connect`, `AsyncClient`, `AsyncLock`, `AsyncLease`. One line per method."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, Self

from lockfast.acquire import lost
from lockfast.engines import opener
from lockfast.errors import LockfastError
from lockfast.guarantees import Guarantees, Level
from lockfast.nouns.block import Leaving, beginning
from lockfast.nouns.lease import LeaseCore
from lockfast.nouns.lock import Default, LockCore
from lockfast.port import Shape
from lockfast.runtime.aio import Aio
from lockfast.session import Session
from lockfast.url import parse


class AsyncLease(LeaseCore):
    """One acquisition. Leaving `async with` releases it; a loss cancels the body."""

    __slots__ = ("_cancelled", "_cancelling", "_task")

    release = LeaseCore._release
    wait_lost = LeaseCore._wait_lost

    async def __aenter__(self) -> Self:
        """Begin the body, unless the lease is lost already; from here on a loss cancels it."""
        self.ensure_held()
        self._watch()
        return self

    def _watch(self) -> None:
        self._cancelled = False
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        self._session.claims.on_lost(self.live, self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._cancelled = True
            self._task.cancel("lockfast: the lease was lost")

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release. Turn our own cancellation, and no other, into `LeaseLost`."""
        task, self._task = self._task, None
        ours = self._cancelled and task is not None and task.uncancel() <= self._cancelling
        try:
            await self._release()
        except LockfastError as failure:
            if error is None:
                raise
            if not ours:
                error.add_note(f"lockfast: the release failed too: {failure}")
        if ours and isinstance(error, asyncio.CancelledError):
            raise lost(self.live) from error


class Acquiring:
    """An acquisition to come: await it for the lease, or enter it with `async with`."""

    __slots__ = ("_coroutine", "_lease")

    def __init__(self, coroutine: Coroutine[Any, Any, AsyncLease]) -> None:
        """Nothing runs yet."""
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, AsyncLease]:
        """Acquire."""
        return self._coroutine.__await__()

    async def __aenter__(self) -> AsyncLease:
        """Acquire, and begin the body."""
        self._lease = await self._coroutine
        self._lease._watch()
        return self._lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release."""
        await self._lease.__aexit__(kind, error, trace)


class AsyncLock(LockCore[AsyncLease]):
    """A lock for tasks. `async with lock:` acquires it, and releases it at the end."""

    __slots__ = ()

    try_acquire = LockCore[AsyncLease]._try_acquire
    holders = LockCore[AsyncLease]._holders
    queue = LockCore[AsyncLease]._queue

    def acquire(self, *, timeout: float | Default | None = Default.OF_LOCK) -> Acquiring:
        """Wait for the grant, `timeout` seconds at most (None: for ever), and return the lease.

        Raises `NotAcquired` when the time is over.
        """
        return Acquiring(self._acquire(timeout=timeout))

    async def __aenter__(self) -> AsyncLease:
        """Acquire."""
        block = beginning()
        lease = block.lease = await self._acquire_in(block)
        lease._watch()
        return lease

    __aexit__ = Leaving(AsyncLease.__aexit__)


class AsyncClient:
    """A connection to an engine, for the tasks of one event loop: share one in all of it."""

    def __init__(self, session: Session) -> None:
        """Use `connect` instead."""
        self._session = session

    def lock(
        self, name: str, *, ttl: float = 30.0, timeout: float | None = None, purpose: str = ""
    ) -> AsyncLock:
        """Describe a lock; the arguments are those of `Client.lock`."""
        return AsyncLock(self._session, AsyncLease, Shape(name, ttl), timeout, purpose)

    async def guarantees(self) -> Guarantees:
        """Ask the live server how it is set up, and say what that lets us promise."""
        return await self._session.guarantees()

    async def close(self) -> None:
        """Release what is held and disconnect; takes two seconds at most."""
        await self._session.close()

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


def connect(url: str | None = None, *, require: Level | str | None = None) -> AsyncClient:
    """Make a client for the engine at `url`, or at LOCKFAST_URL. Nothing is opened before use.

    `require`: as for `lockfast.connect`.
    """
    runtime = Aio()
    return AsyncClient(Session(opener(parse(url), runtime), runtime, require))
