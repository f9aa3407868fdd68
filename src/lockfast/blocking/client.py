"""The blocking client: `connect` and `Client`. One line per method."""

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
from lockfast.port import SHARED, Shape, permits_of
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
    """A connection to an engine, for threads: share one in the whole process."""

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
        on_busy: Literal["wait", "raise", "skip"] = "wait",
    ) -> Lock | Skip:
        """Describe a lock. It is a context manager, and decorates functions.

        `name`: as a decorator, `"pay:{order_id}"` is filled from the call's arguments.
        `ttl`: seconds for which a holder that died blocks the others; a live one renews by itself.
        `timeout`: seconds to wait for the grant; None waits for ever.
        `purpose`: shown to whoever asks who holds it.
        `at_least`: seconds for which it stays taken, however soon it is released: a job of two
        milliseconds then runs once, although the machines' clocks differ. A process that ends
        before that leaves it to the ttl.
        `on_busy`: "raise" raises `NotAcquired` and "skip" makes a decorated function return None
        when the timeout is over: at once, if there is none.
        """
        timeout = patience(on_busy, timeout)
        lock = Lock(self._session, Lease, Shape(name, ttl), timeout, purpose, at_least)
        return Skip(lock) if on_busy == "skip" else lock

    def rlock(
        self, name: str, *, ttl: float = 30.0, timeout: float | None = None, purpose: str = ""
    ) -> RLock:
        """Describe a lock that the thread which holds it may take again: one token at any depth."""
        return RLock(self._session, RLease, Shape(name, ttl), timeout, purpose)

    def rwlock(
        self, name: str, *, ttl: float = 30.0, timeout: float | None = None, purpose: str = ""
    ) -> RWLock[Lock]:
        """Describe a read/write lock: `.read()` and `.write()` are locks."""
        return RWLock(
            name,
            lambda weight: Lock(
                self._session, Lease, Shape(name, ttl, SHARED, weight), timeout, purpose
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
    ) -> Lock:
        """Describe `permits` of a semaphore of that capacity. Permits expire with their lease."""
        shape = Shape(name, ttl, permits_of(capacity, permits), permits)
        return Lock(self._session, Lease, shape, timeout, purpose)

    def lock_all(
        self, *names: str, ttl: float = 30.0, timeout: float | None = None, purpose: str = ""
    ) -> MultiLock:
        """Describe several locks that are taken together: all or nothing, and lost together."""
        return MultiLock(self._session, Lease, MultiLease, names, ttl, timeout, purpose)

    def election(self, name: str, *, ttl: float = 30.0) -> Election:
        """Describe an election: whoever holds it leads, and its token is the term."""
        return Election(self._session, Lease, name, ttl)

    def inspect(self, prefix: str = "") -> list[Holder]:
        """Show who holds and who waits, on all names that begin with `prefix`.

        By name, and within a name in the order of the queue. Read in pages: what changes meanwhile
        may be shown as it was, or not at all.
        """
        return drive(every(self._session, prefix))

    def deadlocks(self) -> list[list[Tie]]:
        """Find circles of waits that can never end, of all clients of the engine."""
        return drive(circles(self._session))

    def breaks(self, name: str) -> list[Break]:
        """Return who broke that lock, and why: the last 16 records, the newest first.

        Records are kept for a day. ZooKeeper keeps the last 64 of a group of names instead,
        whatever their age.
        """
        return drive(broken(self._session, name))

    def revoke(self, holder: Holder, reason: str) -> bool:
        """Take a claim away from whoever has it; False if it was over already.

        The old holder learns of it at its next renewal, and may act until then: only a guard
        refuses it. `reason` is stored beside who you are, for as long as `breaks` shows it, and the
        old holder's `LeaseLost` says it.
        """
        return drive(revoke(self._session, holder, reason))

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


def connect(
    url: str | None = None,
    *,
    engine: Factory | None = None,
    require: Level | str | None = None,
    deadlock_after: float | None = DEADLOCK,
) -> Client:
    """Make a client for the engine at `url`, or at LOCKFAST_URL. Nothing is opened before use.

    `engine`: makes an engine of your own, see `lockfast.engines.Factory`. It needs no URL.
    `require`: "efficiency", "fenced" or "consensus". The first acquisition asks the live server
    and raises `GuaranteeMissing` if it cannot promise that much.
    `deadlock_after`: seconds after which a waiter that holds something looks whether it waits in
    a circle, and again from time to time; None never looks.
    """
    runtime = Threads()
    open_engine, target = choose(url, engine, runtime)
    session = Session(open_engine, runtime, require, deadlock_after, target)
    _open.add(session)
    return Client(session)


_open: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Release at exit: the next holder should not wait for a ttl because a program ended.

    All clients together get the time of one: those whose server is gone must not add up.
    """
    sessions = [session for session in _open if not session.closed]
    end = now() + PARTING
    for place, session in enumerate(sessions):
        drive(session.close(max(end - now(), 0.0) / (len(sessions) - place)))
