"""The waiters of a client, and what they watch, so that only those that may be granted are woken.

A waiter for a lock watches only the claim before it, until it is the first in line. The first in
line, and all waiters for shared locks, watch the deletions on their name. The waiters of a client
share one watch per name, so etcd reports a deletion to a client once, however many waiters it
concerns. This watch covers their own claims too: a waiter that an operator has removed must not be
granted when the lock becomes free. A watch begins where the oldest snapshot of its waiters ended,
so it misses nothing, however late it begins.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from itertools import accumulate, count
from operator import le

from lockfast.engines.etcd.keys import Row, end
from lockfast.engines.etcd.messages import Heard, unwatch, watch
from lockfast.port import Kind, Wake

Ahead = tuple[bytes, int, int, int]
"""Key, revision, weight and capacity of a claim before a waiter."""


class Wait:
    """One waiter.

    `ahead`: the claims before it, as far as they are known. For a lock that is the one just before.
    `alone`: it watches that one claim, and has to read the queue when that claim is deleted.
    `smaller`: how many claims before it have a smaller capacity. They may wait although it fits.
    """

    __slots__ = (
        *("ahead", "alone", "capacity", "id", "key", "load", "revision", "since", "smaller"),
        "target",
    )

    def __init__(self, row: Row, ahead: Sequence[Ahead], since: int, *, sure: bool) -> None:
        """Describe a waiter.

        `ahead`: the claims before it, the oldest first. `since`: the revision of the snapshot that
        showed them. `sure`: there are no other claims before it.
        """
        self.id = row.id
        self.key = row.key
        self.revision = row.revision
        self.capacity = row.capacity
        self.ahead = {each[0]: each[1:] for each in ahead}
        self.load = row.weight + sum(weight for _, _, weight, _ in ahead)
        self.smaller = sum(1 for *_, capacity in ahead if capacity < row.capacity)
        self.alone = row.kind is Kind.LOCK and not sure
        self.target = ahead[0][0] if self.alone else row.key[:-32]
        self.since = since

    def gone(self, key: bytes) -> None:
        """Note that a claim was deleted. The load is not summed up again, because each of many
        sharers hears of each deletion.
        """
        _, weight, capacity = self.ahead.pop(key, (0, 0, self.capacity))
        self.load -= weight
        self.smaller -= capacity < self.capacity

    def let_in(self) -> bool:
        """Return whether the rule grants it, beside the claims that are left ahead of it.

        If it fits, so does every claim ahead of it whose capacity is not smaller than its own: the
        weight up to such a claim is less than the load. Only smaller ones make the sums necessary.
        """
        if self.load > self.capacity:
            return False
        if not self.smaller:
            return True
        weights = accumulate(weight for _, weight, _ in self.ahead.values())
        return all(map(le, weights, (capacity for *_, capacity in self.ahead.values())))


class Watch:
    """One watch, and the waiters that share it."""

    __slots__ = ("alone", "at", "ident", "target", "waits")

    def __init__(self, ident: int, wait: Wait) -> None:
        """Make a watch for what a waiter waits for, without the waiter."""
        self.ident = ident
        self.target = wait.target
        self.alone = wait.alone
        self.at = wait.since  # the revision up to which all its waiters know the deletions
        self.waits: dict[str, Wait] = {}

    def request(self) -> bytes:
        """Return the request to etcd to watch from the revision after `at`."""
        until = b"" if self.alone else end(self.target)
        return watch(self.ident, self.target, until, self.at + 1)


class Waits:
    """All waiters of one client. Thread-safe, and no method blocks."""

    def __init__(self, base: int) -> None:
        """Start without waiters. `base` is added to every ticket."""
        self._base = base
        # Re-entrant: a signal handler or a finalizer may interrupt a thread that is inside between
        # any two steps, and add and drop waiters. So a watch that was found is looked up again
        # after each step, and no waiter is left without a watch.
        self._lock = threading.RLock()
        self._idents = count(1)
        self._waits: dict[str, Wait] = {}
        self._by_target: dict[bytes, Watch] = {}
        self._by_ident: dict[int, Watch] = {}

    def __len__(self) -> int:
        """Return the number of waiters."""
        return len(self._waits)

    def add(self, wait: Wait) -> list[bytes]:
        """Add a waiter, or update it; return the requests to send to etcd."""
        with self._lock:
            old = self._waits.get(wait.id)
            if old is not None and old.target == wait.target:
                # The watch of the older entry continues, and reports all deletions since then.
                return []
            told = self._drop(wait.id)
            watch = self._by_target.setdefault(wait.target, Watch(0, wait))
            watch.waits[wait.id] = self._waits[wait.id] = wait
            if self._by_target.setdefault(wait.target, watch) is not watch:
                self._waits.pop(wait.id, None)  # an interruption has replaced its watch
                return told + self.add(wait)
            if self._by_ident.get(watch.ident) is not watch or wait.since < watch.at:
                # The watch is new, or has reported deletions that this waiter's snapshot does not
                # know. It begins again there. To hear of a deletion twice is harmless.
                watch.at = min(watch.at, wait.since)
                told += self._begin(watch)
            return told

    def _begin(self, watch: Watch) -> list[bytes]:
        """Begin a watch, or begin it again. Return the requests to send to etcd."""
        told = [unwatch(watch.ident)] if self._by_ident.pop(watch.ident, None) else []
        watch.ident = next(self._idents)
        self._by_ident[watch.ident] = watch
        return [*told, watch.request()]

    def drop(self, ids: Iterable[str]) -> list[bytes]:
        """Forget waiters; return the requests to send to etcd."""
        with self._lock:
            return [said for id_ in ids for said in self._drop(id_)]

    def _drop(self, id_: str) -> list[bytes]:
        wait = self._waits.pop(id_, None)
        if wait is None:
            return []
        watch = self._by_target.get(wait.target)
        if watch is None:
            return []
        watch.waits.pop(id_, None)
        if watch.waits:
            return []
        self._by_target.pop(watch.target, None)
        told = [unwatch(watch.ident)] if self._by_ident.pop(watch.ident, None) else []
        for late in list(watch.waits.values()):  # an interruption has added it since
            self._waits.pop(late.id, None)
            told += self.add(late)
        return told

    def again(self) -> list[bytes]:
        """Return the requests that begin all watches on another stream, each from where it is."""
        with self._lock:
            return [watch.request() for watch in list(self._by_ident.values())]

    def hear(self, messages: Iterable[Heard]) -> tuple[list[Wake], list[Wait], list[bytes]]:
        """Process messages of the watches. Return the wakes, the waiters that have to read their
        queue, and the requests to send to etcd. Refused watches stay, for another stream.
        """
        wakes: list[Wake] = []
        unsure: list[Wait] = []
        told: list[bytes] = []
        with self._lock:
            for ident, _, ended, _, gone in messages:
                watch = self._by_ident.get(ident)
                if watch is None or not (ended or gone):
                    continue
                watch.at = max([watch.at, *(when for _, when in gone)])
                for wait in list(watch.waits.values()):
                    for key, _ in gone:
                        wait.gone(key)
                    if ended:  # compacted or canceled: only a read can tell
                        self._drop(wait.id)
                        wakes.append(Wake(wait.id, granted=False))
                    elif any(key == wait.key for key, _ in gone):
                        told += self._drop(wait.id)
                        wakes.append(Wake(wait.id, granted=False))
                    elif wait.alone:
                        told += self._drop(wait.id)
                        unsure.append(wait)
                    elif wait.let_in():
                        told += self._drop(wait.id)
                        wakes.append(Wake(wait.id, granted=True, floor=self._floor(wait)))
        return wakes, unsure, told

    def _floor(self, wait: Wait) -> int:
        revisions = (revision for revision, *_ in wait.ahead.values())
        return min(revisions, default=wait.revision) + self._base
