"""The waiters of a client, and what they watch: nobody is woken who cannot be granted.

A waiter for a lock watches the claim before it and nothing else, until it is the first in line. The
first in line, and those for many sharers, watch the deletions on their name, all of a client with
one watch: a departure is told to a client once, however many of its waiters it concerns. Their own
claims are among them: a waiter that an operator has removed is not let in when the lock is free. A
watch goes on where the oldest snapshot of its waiters ended, so nothing
is missed, however late it begins.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from itertools import count

from lockfast.engines.etcd.keys import Row, end
from lockfast.engines.etcd.messages import Heard, unwatch, watch
from lockfast.port import Wake


class Wait:
    """One waiter. `ahead` is what stands before it, as far as that is known: for a lock the claim
    just before it. `alone`: it watches that one claim, and has to look when that is gone.
    """

    __slots__ = ("ahead", "alone", "capacity", "id", "key", "load", "revision", "since", "target")

    def __init__(
        self, row: Row, ahead: Sequence[tuple[bytes, int, int]], since: int, *, sure: bool
    ) -> None:
        """`ahead`: key, revision and weight of each; `since`: the revision of the snapshot; `sure`:
        nobody else stands ahead.
        """
        self.id = row.id
        self.key = row.key
        self.revision = row.revision
        self.capacity = row.capacity
        self.ahead = {key: (revision, weight) for key, revision, weight in ahead}
        self.load = row.weight + sum(weight for _, _, weight in ahead)
        self.alone = row.capacity == 1 and not sure
        self.target = ahead[0][0] if self.alone else row.key[:-32]
        self.since = since

    def gone(self, key: bytes) -> None:
        """Note that a claim has gone. Nothing is counted anew: each of many sharers hears of
        each that leaves.
        """
        _, weight = self.ahead.pop(key, (0, 0))
        self.load -= weight

    def let_in(self) -> bool:
        """Apply the rule to what is left ahead of it."""
        return self.load <= self.capacity


class Watch:
    """One watch, and the waiters for whom it is."""

    __slots__ = ("alone", "at", "ident", "target", "waits")

    def __init__(self, ident: int, wait: Wait) -> None:
        """Watch what a waiter waits for."""
        self.ident = ident
        self.target = wait.target
        self.alone = wait.alone
        self.at = wait.since  # the revision up to which all of them know what has gone
        self.waits: dict[str, Wait] = {}

    def request(self) -> bytes:
        """Ask etcd to watch, from where it is."""
        until = b"" if self.alone else end(self.target)
        return watch(self.ident, self.target, until, self.at + 1)


class Waits:
    """All waiters of one client. Shared between threads; nothing here waits."""

    def __init__(self, base: int) -> None:
        """Begin with nobody."""
        self._base = base
        # Re-entrant, for signal handlers and finalizers that come between any two steps of a
        # thread that is inside. They may add and drop waiters, so a watch that was found is
        # looked at again after each step: none is left without a watch.
        self._lock = threading.RLock()
        self._idents = count(1)
        self._waits: dict[str, Wait] = {}
        self._by_target: dict[bytes, Watch] = {}
        self._by_ident: dict[int, Watch] = {}

    def __len__(self) -> int:
        """Count them."""
        return len(self._waits)

    def add(self, wait: Wait) -> list[bytes]:
        """Add a waiter, or update it; return the requests to send to etcd."""
        with self._lock:
            old = self._waits.get(wait.id)
            if old is not None and old.target == wait.target:
                # The watch of the older entry goes on: it reports every departure since then.
                return []
            told = self._drop(wait.id)
            watch = self._by_target.setdefault(wait.target, Watch(0, wait))
            watch.waits[wait.id] = self._waits[wait.id] = wait
            if self._by_target.setdefault(wait.target, watch) is not watch:
                self._waits.pop(wait.id, None)  # its watch has ended, and there is another
                return told + self.add(wait)
            if self._by_ident.get(watch.ident) is not watch or wait.since < watch.at:
                # What has gone in between was told before this one came. To hear of a departure
                # twice is harmless.
                watch.at = min(watch.at, wait.since)
                told += self._begin(watch)
            return told

    def _begin(self, watch: Watch) -> list[bytes]:
        """Begin a watch, or begin it anew."""
        told = [unwatch(watch.ident)] if self._by_ident.pop(watch.ident, None) else []
        watch.ident = next(self._idents)
        self._by_ident[watch.ident] = watch
        return [*told, watch.request()]

    def drop(self, ids: Iterable[str]) -> list[bytes]:
        """Forget waiters; give what to tell etcd."""
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
        for late in list(watch.waits.values()):  # it came between the last two looks
            self._waits.pop(late.id, None)
            told += self.add(late)
        return told

    def again(self) -> list[bytes]:
        """Watch everything anew, on another stream, from where each watch is."""
        with self._lock:
            return [watch.request() for watch in list(self._by_ident.values())]

    def hear(self, messages: Iterable[Heard]) -> tuple[list[Wake], list[Wait], list[bytes]]:
        """Take in what the watches say: who is let in, who has to look, what to tell etcd. Those
        that were refused stay: they are for another stream.
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
                    if ended:  # compacted, or given up by the server: only a look can tell
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
        revisions = (revision for revision, _ in wait.ahead.values())
        return min(revisions, default=wait.revision) + self._base
