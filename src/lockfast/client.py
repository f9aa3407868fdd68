"""The blocking client: `connect`, `Client`, `Lock`, `Lease`. One line per method."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from threading import get_ident
from types import TracebackType
from typing import Self, overload

from lockfast.engines import opener
from lockfast.errors import LockfastError
from lockfast.nouns.lease import LeaseCore
from lockfast.nouns.lock import LockCore
from lockfast.port import Shape
from lockfast.runtime.drive import blocking, drive
from lockfast.runtime.threads import Threads
from lockfast.session import Session, on_drop
from lockfast.url import parse


class Lease(LeaseCore):
    """One acquisition. Leaving `with` releases it."""

    __slots__ = ()

    release = blocking(LeaseCore._release)
    wait_lost = blocking(LeaseCore._wait_lost)

    def __enter__(self) -> Self:
        """Begin the body, unless the lease is lost already (TRAPS 6)."""
        self.ensure_held()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release. An error of the release never masks the body's (TRAPS 7)."""
        try:
            self.release()
        except LockfastError as failure:
            if error is None:
                raise
            error.add_note(f"lockfast: the release failed too: {failure}")


class Block:
    """One `with lock:` statement: Python keeps this object exactly as long as the statement runs.

    Ctrl-C may strike before the first line of any `__exit__`, and then nobody would release. But
    however the statement ends, its block dies, and the heart resigns a claim whose block is dead.
    """

    __slots__ = ("__weakref__", "lease")

    lease: Lease

    def __call__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the statement."""
        self.lease.__exit__(kind, error, trace)


class Leaving:
    """`Lock.__exit__`. `with` looks it up once, before it calls `__enter__`: here blocks begin."""

    @overload
    def __get__(self, lock: None, kind: type[Lock]) -> Callable[..., None]: ...
    @overload
    def __get__(self, lock: Lock, kind: type[Lock]) -> Block: ...
    def __get__(self, lock: Lock | None, kind: type[Lock]) -> Callable[..., None] | Block:
        if lock is None:  # asked by ExitStack, which keeps no block
            return lambda lock, *error: lock._pop().__exit__(*error)
        block = Block()
        lock._entering[get_ident()] = weakref.ref(block)
        return block


class Lock(LockCore[Lease]):
    """A lock for threads. `with lock:` acquires it, and releases it at the end."""

    __slots__ = ("_entering",)

    acquire = blocking(LockCore[Lease]._acquire)
    try_acquire = blocking(LockCore[Lease]._try_acquire)
    holders = blocking(LockCore[Lease]._holders)
    queue = blocking(LockCore[Lease]._queue)

    def __init__(self, session: Session, shape: Shape, timeout: float | None, purpose: str) -> None:
        """Use `Client.lock` instead."""
        super().__init__(session, Lease, shape, timeout, purpose)
        self._entering: dict[int, weakref.ref[Block]] = {}

    def __enter__(self) -> Lease:
        """Acquire, for the block of the statement that asked for `__exit__` just before.

        What is kept is kept per statement, never on the lock or the thread (TRAPS 4, 5).
        """
        asked = self._entering.pop(get_ident(), None)
        block = asked() if asked is not None else None
        if block is None:
            lease = self.acquire()
            self._push(lease)
            return lease
        block.lease = drive(self._acquire_in(block))
        return block.lease

    __exit__ = Leaving()


class Client:
    """A connection to an engine, for threads: share one in the whole process."""

    def __init__(self, session: Session) -> None:
        """Use `connect` instead."""
        self._session = session
        on_drop(self, session)
        _open.add(self)

    def lock(
        self, name: str, *, ttl: float = 30.0, timeout: float | None = None, purpose: str = ""
    ) -> Lock:
        """Describe a lock.

        `ttl`: seconds for which a holder that died blocks the others; a live one renews by itself.
        `timeout`: seconds to wait for the grant; None waits for ever.
        `purpose`: shown to whoever asks who holds it.
        """
        return Lock(self._session, Shape(name, ttl), timeout, purpose)

    def close(self) -> None:
        """Release what is held and disconnect; takes two seconds at most."""
        drive(self._session.close())

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()


def connect(url: str | None = None) -> Client:
    """Make a client for the engine at `url`, or at LOCKFAST_URL. Nothing is opened before use."""
    runtime = Threads()
    return Client(Session(opener(parse(url), runtime), runtime))


_open: weakref.WeakSet[Client] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Release at exit: the next holder should not wait for a ttl because a program ended."""
    for client in list(_open):
        client.close()
