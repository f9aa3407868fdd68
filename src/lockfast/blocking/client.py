"""The blocking client: `connect` and `Client`."""

from __future__ import annotations

import atexit
import weakref
from types import TracebackType
from typing import Literal, Self, overload

from lockfast.blocking.facade import (
    Candidacy,
    Election,
    Lease,
    Lock,
    MultiLease,
    MultiLock,
    RLease,
    RLock,
    Skip,
)
from lockfast.breaks import Break
from lockfast.claims.session import DEADLOCK, PARTING, Session
from lockfast.engines import Factory, choose
from lockfast.guarantees import Guarantees, Level
from lockfast.port import SHARED, Kind, Shape, permits_of
from lockfast.primitives.inspection import Tie, broken, circles, every, revoke
from lockfast.primitives.lock import Holder, patience
from lockfast.primitives.rwlock import RWLock
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
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


class Client:
    """A client of an engine, for threads. Share one client in the whole process."""

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
    ) -> Lock: ...

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
    ) -> Skip: ...

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
    ) -> Lock | Skip:
        """Return a lock. Use it in a `with` statement, as a decorator, or call `acquire()`.

        Nothing is sent before the lock is acquired.

        - `name`: the name of the lock, 1 to 512 bytes in UTF-8. In a decorator, placeholders such
          as `"pay:{order_id}"` are filled from the arguments of each call.
        - `ttl`: how long, in seconds, the lock stays taken after its holder crashes. lockfast
          renews the lock automatically while the holder is alive.
        - `timeout`: how many seconds to wait for the lock. None waits for ever.
        - `purpose`: a text that the holder shows to other clients, for example in `NotAcquired`.
        - `at_least`: seconds for which the lock stays taken, even if it is released sooner; at most
          the ttl. It makes a short scheduled job run once although the machines' clocks differ. If
          the process ends before that time, the lock stays taken until the ttl is over.
        - `at_most`: seconds after which a holder that hangs loses the lock, counted from the grant.
          lockfast does not renew it after that, so the lease ends at most a ttl later, with the
          reason `Loss.AT_MOST`. None sets no limit.
        - `on_busy`: what to do if the lock is still held after `timeout` seconds. `"wait"` and
          `"raise"` raise `NotAcquired`. `"skip"` is for decorators: the call returns None without
          running the function. Without a timeout, `"wait"` waits for ever, and `"raise"` and
          `"skip"` take effect immediately.
        """
        timeout = patience(on_busy, timeout)
        shape = Shape(name, ttl)
        lock = Lock(self._session, Lease, shape, timeout, purpose, at_least, at_most)
        return Skip(lock) if on_busy == "skip" else lock

    def rlock(
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_most: float | None = None,
    ) -> RLock:
        """Return a re-entrant lock: the thread that holds it can acquire it again.

        All acquisitions of the thread share one token. The options are those of `lock`.
        """
        return RLock(self._session, RLease, Shape(name, ttl), timeout, purpose, at_most=at_most)

    def rwlock(
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_most: float | None = None,
    ) -> RWLock[Lock]:
        """Return a read/write lock. Its `read()` and `write()` return the two locks.

        The options are those of `lock`.
        """
        return RWLock(
            name,
            lambda weight: Lock(
                self._session,
                Lease,
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
    ) -> Lock:
        """Return a lock on `permits` of the `capacity` permits of a semaphore.

        The capacity may change while the semaphore is in use: each claim is granted by the capacity
        that it passes, in the order of arrival. A lease of a semaphore has no token, not even if it
        takes all permits. A crashed holder's permits are free again after the ttl. The other
        options are those of `lock`.
        """
        shape = Shape(name, ttl, Kind.SEMAPHORE, permits_of(capacity, permits), permits)
        return Lock(self._session, Lease, shape, timeout, purpose, at_most=at_most)

    def lock_all(
        self,
        *names: str,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_most: float | None = None,
    ) -> MultiLock:
        """Return a lock on several names, which are acquired together, all or nothing.

        If one of the leases is lost, they count as lost together. The options are those of `lock`.
        """
        return MultiLock(self._session, Lease, MultiLease, names, ttl, timeout, purpose, at_most)

    def election(self, name: str, *, ttl: float = 30.0, at_most: float | None = None) -> Election:
        """Return a leader election. The holder of its lease is the leader, the token is the term.

        - `ttl`: how long, in seconds, a leader that has crashed remains the leader.
        - `at_most`: seconds after which a term is not renewed. See `lock`.
        """
        return Election(self._session, Lease, name, ttl, at_most)

    def inspect(self, prefix: str = "") -> list[Holder]:
        """Return the holders and waiters of all locks whose names begin with `prefix`.

        They are sorted by name, and within a name in the order of the queue. The list is read in
        pages. A claim that changes meanwhile may appear in its old state, or not at all.
        """
        return drive(every(self._session, prefix))

    def deadlocks(self) -> list[list[Tie]]:
        """Return all present deadlocks, among all clients of the engine.

        Each is a list of ties that form a cycle. A wait in such a cycle can never end by itself.
        """
        return drive(circles(self._session))

    def breaks(self, name: str) -> list[Break]:
        """Return who broke a lock and why: the last 16 records, the newest first.

        The engine keeps records for a day. ZooKeeper keeps at most the last 64 records of a group
        of names.
        """
        return drive(broken(self._session, name))

    def revoke(self, holder: Holder, reason: str) -> bool:
        """Break a lock: remove the claim of a holder or waiter. Return False if it is gone already.

        The old holder notices at its next renewal. Until then it may still write, and only a guard
        rejects that.

        - `holder`: a result of `inspect`, or of a lock's `holders` or `queue`.
        - `reason`: stored together with your user name, host and process id. `breaks` returns it,
          and the old holder finds it in `LeaseLost`.
        """
        return drive(revoke(self._session, holder, reason))

    def guarantees(self) -> Guarantees:
        """Read the setup of the live server, and return what the engine guarantees with it."""
        return drive(self._session.guarantees())

    def close(self) -> None:
        """Release all leases and disconnect. This takes two seconds at most."""
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


def connect(
    url: str | None = None,
    *,
    engine: Factory | None = None,
    require: Level | str | None = None,
    deadlock_after: float | None = DEADLOCK,
) -> Client:
    """Return a client for an engine. It connects on first use, not here.

    - `url`: the address of the engine, such as `redis://localhost:6379`. It defaults to the
      environment variable LOCKFAST_URL, or to the content of the file in LOCKFAST_URL_FILE.
    - `engine`: a factory for an engine of your own, see `lockfast.engines.Factory`. It needs no
      URL.
    - `require`: "efficiency", "fenced" or "consensus". The first acquisition reads the setup of the
      live server, and raises `GuaranteeMissing` if the engine guarantees less than that.
    - `deadlock_after`: seconds after which a waiter that holds other locks searches for a deadlock.
      It repeats the search from time to time. None disables it.
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
