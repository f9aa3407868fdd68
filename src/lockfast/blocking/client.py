"""The blocking client: `connect` and `Client`."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from lockfast.blocking.election import Candidacy, Election
from lockfast.blocking.facade import (
    Lease,
    Lock,
    MultiLease,
    MultiLock,
    RLease,
    RLock,
    Skip,
)
from lockfast.claims.session import DEADLOCK, PARTING, Session
from lockfast.engines import Factory, choose
from lockfast.guarantees import Level
from lockfast.port import Shape
from lockfast.primitives.client import ClientCore
from lockfast.runtime.base import now
from lockfast.runtime.drive import blocking, drive
from lockfast.runtime.threads import Threads

__all__ = [
    "Candidacy",
    "Client",
    "Election",
    "Lease",
    "Lock",
    "MultiLease",
    "MultiLock",
    "RLease",
    "RLock",
    "Skip",
    "connect",
]


class Client(ClientCore[Lock, Skip, RLock, MultiLock, Election]):
    """A client of an engine, for threads. Share one client in the whole process.

    Example:
        ::

            with lockfast.connect("redis://localhost:6379") as client:
                with client.lock("report", ttl=10) as lease:
                    print(lease.token)
    """

    inspect = blocking(ClientCore._inspect)
    deadlocks = blocking(ClientCore._deadlocks)
    breaks = blocking(ClientCore._breaks)
    revoke = blocking(ClientCore._revoke)
    guarantees = blocking(ClientCore._guarantees)

    def close(self) -> None:
        """Release all leases and disconnect, within two seconds.

        It raises no exception if the engine does not answer. It logs which locks stay taken until
        their ttl is over.
        """
        drive(self._session.close())

    def __enter__(self) -> Self:
        """Return the client. It is closed at the end of the `with` block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the client."""
        self.close()

    def _lock(
        self,
        shape: Shape,
        timeout: float | None,
        purpose: str,
        at_least: float,
        at_most: float | None,
    ) -> Lock:
        return Lock(self._session, Lease, shape, timeout, purpose, at_least, at_most)

    def _skip(self, lock: Lock) -> Skip:
        return Skip(lock)

    def _rlock(
        self, shape: Shape, timeout: float | None, purpose: str, at_most: float | None
    ) -> RLock:
        return RLock(self._session, RLease, shape, timeout, purpose, at_most=at_most)

    def _multilock(
        self,
        names: Sequence[str],
        ttl: float,
        timeout: float | None,
        purpose: str,
        at_most: float | None,
    ) -> MultiLock:
        return MultiLock(self._session, Lease, MultiLease, names, ttl, timeout, purpose, at_most)

    def _election(self, name: str, ttl: float, at_most: float | None) -> Election:
        return Election(self._session, Lease, name, ttl, at_most)


def connect(
    url: str | None = None,
    *,
    engine: Factory | None = None,
    require: Level | str | None = None,
    deadlock_after: float | None = DEADLOCK,
) -> Client:
    """Return a client for an engine. It connects on first use, not here.

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
        A client for threads. Share it in the whole process, and close it at the end.

    Raises:
        ValueError: There is no URL, no engine for it, or an option or a level that does not exist.
        TypeError: `url`, `engine` or `deadlock_after` has the wrong type.
        ImportError: The engine's driver is not installed. The message names the extra to install.

    Example:
        ::

            client = lockfast.connect("redis://localhost:6379", require="efficiency")
            with client.lock("report", ttl=10) as lease:
                print("holding the lock with token", lease.token)
    """
    runtime = Threads()
    open_engine, target = choose(url, engine, runtime)
    session = Session(open_engine, runtime, require, deadlock_after, target)
    _open.add(session)
    return Client(session)


_open: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close all clients at exit, so that other processes need not wait until the ttls are over.

    All clients together get the time of one, because the timeouts of many unreachable servers would
    add up.
    """
    sessions = [session for session in _open if not session.closed]
    end = now() + PARTING
    for place, session in enumerate(sessions):
        drive(session.close(max(end - now(), 0.0) / (len(sessions) - place)))
