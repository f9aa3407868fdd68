"""The store: runs transactions on one connection, one after the other, and survives a fork.

SQLite forbids using or closing a connection in a forked child, and a new connection to the same
file in the child would rely on locks that only the parent has. So every store closes its connection
before a fork, and opens another one afterwards, in the parent and in the child.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import TypeVar

from lockfast.engines.sqlite.clock import HostClock
from lockfast.engines.sqlite.connection import connected
from lockfast.engines.sqlite.database_file import DatabaseFile, Identity
from lockfast.engines.sqlite.failures import Busy, failed
from lockfast.engines.sqlite.transaction import Transaction
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.port import Wake
from lockfast.runtime.base import Clock
from lockfast.runtime.mutex import Mutex

T = TypeVar("T")
Work = Callable[[Transaction], T]
FIRST, LONGEST = 0.0001, 0.005  # seconds between two attempts to get the database
URGENT = 0.0005  # the longest for renewals and releases, which go ahead of claims
CROWDED = 0.5  # seconds after which the database is not crowded but stuck: haste is of no use
OFTEN = 20_000  # µs for which a check of the file counts: it costs a tenth of a transaction
FORKING = 2.0  # seconds that a fork waits for a transaction to end
_inherited: dict[tuple[int, int] | None, sqlite3.Connection] = {}
"""Connections of the parent, in a child that was forked without a warning. They are never closed.
By the device and inode of the database."""


class Store:
    """The database of one engine. Any thread may use it.

    A signal handler or a finalizer may interrupt a transaction in the same thread. It cannot wait
    for the end of the transaction. Work that it hands to `later` runs afterwards, and `run` raises
    `EngineUnavailable`.
    """

    def __init__(
        self, file: DatabaseFile, now: Clock, notify: Callable[[list[Wake]], object]
    ) -> None:
        """Open nothing yet. `notify` gets the waiters that a commit has granted."""
        self.file = file
        self.clock = HostClock(now)
        self._now = now
        self._notify = notify
        self._lock = Mutex()
        self._later: list[Work[object]] = []
        self._connection: sqlite3.Connection | None = None
        self._main: tuple[int, int] | None = None
        self._identity: Identity | None = None
        self._check_at = 0
        self._opened = 0
        self.meanwhile: Callable[[], object] = lambda: None
        """What the thread does besides, between two attempts to get the database."""
        self._forker: int | None = None
        """The thread that forks, and has the mutex meanwhile. Another one may fork beside it."""
        _stores.add(self)

    def run(
        self, work: Work[T], deadline: float, *, writes: bool = True, urgent: bool = False
    ) -> T:
        """Run `work` in a transaction, and return its result. Wait for other writers meanwhile.

        SQLite has no queue of writers. Who asks more often gets the database sooner, so `urgent`
        work asks more often than other work: a claim can wait, but a late renewal costs a lease.
        """
        if self._lock.inside():
            raise EngineUnavailable(
                f"{self} was called by a signal handler or a finalizer that interrupted it in the "
                "same thread: do the work in another thread",
                sent=False,
            )
        pause, stuck_at = FIRST, 0.0
        while True:
            try:
                with self._lock:
                    result = self._transact(work, writes=writes)
                break
            except Busy:
                now = self._now()
                stuck_at = stuck_at or now + CROWDED
                if now + pause > deadline:
                    raise EngineUnavailable(
                        f"{self} is busy: another process has been writing to it until the "
                        "deadline. Look for a process that is stopped, or that has opened the file "
                        "with another program",
                        sent=False,
                    ) from None
            self.meanwhile()
            # SQLite's own busy handler knows no deadline, and would block all greenlets.
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # no secret
            pause = min(pause * 2.0, URGENT if urgent and now < stuck_at else LONGEST)
        if self._later:
            self._catch_up(deadline)
        return result

    def _catch_up(self, deadline: float) -> None:
        """Run what was put off. What fails is tried again after the next transaction."""
        later, self._later = self._later, []
        for work in later:
            try:
                self.run(work, deadline)
            except EngineError:
                self._later.append(work)

    def put_off(self, work: Work[object]) -> bool:
        """Have `work` run after the transaction that the caller has interrupted. Return False if
        the caller has interrupted none.
        """
        if not self._lock.inside():
            return False
        self._later.append(work)
        return True

    def _transact(self, work: Work[T], *, writes: bool) -> T:
        """Run `work` in a transaction. Raise `Busy` if another process is writing."""
        connection = self._connection or self._open()
        done = False
        try:
            if connection.in_transaction:  # Ctrl-C has interrupted its end
                connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            transaction = Transaction(connection, self.clock.micros(), writes=writes)
            if transaction.now >= self._check_at:
                self._check(transaction.now)
            result = work(transaction)
            if self._connection is not connection:  # a signal handler has forked: this is the child
                raise EngineRefused(f"{self}: the transaction is the parent's, not the child's")
            connection.execute("COMMIT")
            done = True
        except sqlite3.Error as error:
            if self._identity is not None:
                self._check()
            meant = failed(error, self.file.path)
            if not isinstance(meant, Busy):  # the next one may find another file at the path
                self._close()
            raise meant from error
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise EngineRefused(
                f"{self} has content that lockfast did not write. Stop all processes that use it, "
                f"and then remove it ({error})"
            ) from error
        finally:
            if not done and self._connection is not None and connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
        if transaction.wakes:
            self._notify(transaction.wakes)
        return result

    def _open(self) -> sqlite3.Connection:
        if self.file.main() in _inherited:
            raise EngineRefused(
                f"{self} was open when this process was forked, and the fork did not run Python's "
                "hooks. SQLite cannot open the same file again in the child: use lockfast only "
                "after the fork, or fork with os.fork()"
            )
        self._connection, self._main = connected(self.file)
        self._opened += 1
        return self._connection

    def _check(self, now: int = 0) -> None:
        """Raise `EngineUnavailable` if the file was deleted or replaced, and open the new one next.

        Other processes that open the path now get another file, and could get the same locks. A
        holder that was granted a lock just before finds out by its next renewal.
        """
        found = self.file.identity()
        self._identity = self._identity or found
        self._check_at = now + OFTEN
        if found is None or found != self._identity or found[0] != self._main:
            self._close()
            raise EngineUnavailable(
                f"{self} was deleted or replaced while it was in use, so other processes no longer "
                "see the locks of this one. They are lost. Never remove the file, or the files "
                "beside it that end in -wal and -shm, while a process uses them",
                sent=False,
            )

    def look(self, work: Work[T]) -> T | None:
        """Run `work` in a transaction that only reads. None if the database is busy or in trouble.

        The heart looks often. What is wrong shows in its next renewal.
        """
        if self._lock.inside():
            return None
        try:
            with self._lock:
                return self._transact(work, writes=False)
        except (Busy, EngineError):
            return None

    def version(self) -> tuple[int, int] | None:
        """Return how often the file was opened, and a number that changes when another connection
        has written since then. None: not known.
        """
        if self._lock.inside():
            return None
        with self._lock:
            if self._connection is None:
                return None
            try:
                ((version,),) = self._connection.execute("PRAGMA data_version")
            except sqlite3.Error:
                return None
            return self._opened, int(version)

    def close(self) -> None:
        """Close the connection. Another use opens it again."""
        if not self._lock.inside():
            with self._lock:
                self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        self._identity, self._check_at = None, 0
        if connection is not None:
            try:
                connection.close()
            except sqlite3.Error:  # nothing is lost: what was committed is in the file
                return

    def before_fork(self) -> None:
        """Close the connection, and let nobody open another one until the fork is over."""
        if not self._lock.inside() and self._lock.acquire(timeout=FORKING):
            self._forker = get_ident()
            self._close()

    def after_fork(self) -> None:
        """Go on in the parent."""
        if self._forker == get_ident():
            self._forker = None
            self._lock.release()

    def reset(self) -> None:
        """Start again in the child, where the thread that has the mutex may not exist."""
        self._lock = Mutex()
        self._forker = None
        connection, self._connection = self._connection, None
        if connection is not None:  # C code has forked, or a signal handler within a transaction
            _inherited[self._main] = connection

    def __str__(self) -> str:
        """Return its name for messages."""
        return f"SQLite at {str(self.file.path)!r}"


_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _before_fork() -> None:
    for store in list(_stores):
        store.before_fork()


def _after_fork() -> None:
    for store in list(_stores):
        store.after_fork()


def _in_child() -> None:
    for store in list(_stores):
        store.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
