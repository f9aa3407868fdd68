"""The blocking client: `connect`, `Client`, `Lock`, `Lease`. One line per method."""

from __future__ import annotations

import atexit
import weakref
from types import TracebackType
from typing import Self

from lockfast.acquire import give_up
from lockfast.engines import opener
from lockfast.errors import LockfastError
from lockfast.guarantees import Guarantees, Level
from lockfast.nouns.block import Leaving, beginning
from lockfast.nouns.lease import LeaseCore
from lockfast.nouns.lock import Default, LockCore
from lockfast.port import Shape
from lockfast.runtime.drive import blocking, drive
from lockfast.runtime.threads import Threads
from lockfast.session import Session
from lockfast.url import parse


class Lease(LeaseCore):
    """One acquisition. Leaving `with` releases it."""

    __slots__ = ()

    wait_lost = blocking(LeaseCore._wait_lost)

    def release(self) -> None:
        """Give the lease back. Twice is fine; after a loss it raises `LeaseLost`, once.

        After an engine's error it can be called again.
        """
        coroutine = None
        try:
            coroutine = self._release()
            coroutine.send(None)
        except StopIteration:
            return
        except LockfastError:
            raise
        except BaseException:  # Ctrl-C, perhaps before the release began: it is wanted all the same
            if coroutine is not None:
                coroutine.close()
            give_up(self._session, self.live)
            raise

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


class Lock(LockCore[Lease]):
    """A lock for threads. `with lock:` acquires it, and releases it at the end."""

    __slots__ = ()

    try_acquire = blocking(LockCore[Lease]._try_acquire)
    holders = blocking(LockCore[Lease]._holders)
    queue = blocking(LockCore[Lease]._queue)

    def acquire(self, *, timeout: float | Default | None = Default.OF_LOCK) -> Lease:
        """Wait for the grant, `timeout` seconds at most (None: for ever), and return the lease.

        Raises `NotAcquired` when the time is over.
        """
        return drive(self._acquire(timeout=timeout))

    def __enter__(self) -> Lease:
        """Acquire."""
        block = beginning()
        lease = block.lease = drive(self._acquire_in(block))
        return lease

    __exit__ = Leaving(Lease.__exit__)


class Client:
    """A connection to an engine, for threads: share one in the whole process."""

    def __init__(self, session: Session) -> None:
        """Use `connect` instead."""
        self._session = session

    def lock(
        self, name: str, *, ttl: float = 30.0, timeout: float | None = None, purpose: str = ""
    ) -> Lock:
        """Describe a lock.

        `ttl`: seconds for which a holder that died blocks the others; a live one renews by itself.
        `timeout`: seconds to wait for the grant; None waits for ever.
        `purpose`: shown to whoever asks who holds it.
        """
        return Lock(self._session, Lease, Shape(name, ttl), timeout, purpose)

    def guarantees(self) -> Guarantees:
        """Ask the live server how it is set up, and say what that lets us promise."""
        return drive(self._session.guarantees())

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


def connect(url: str | None = None, *, require: Level | str | None = None) -> Client:
    """Make a client for the engine at `url`, or at LOCKFAST_URL. Nothing is opened before use.

    `require`: "efficiency", "fenced" or "consensus". The first acquisition asks the live server
    and raises `GuaranteeMissing` if it cannot promise that much.
    """
    runtime = Threads()
    session = Session(opener(parse(url), runtime), runtime, require)
    _open.add(session)
    return Client(session)


_open: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Release at exit: the next holder should not wait for a ttl because a program ended."""
    for session in list(_open):
        drive(session.close())
