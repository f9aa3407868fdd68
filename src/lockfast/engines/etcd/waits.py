"""The waiters of a client, and what each watches: nobody is woken who cannot be granted.

A waiter for a lock watches the claim before it and nothing else. One of many sharers watches the
deletions on its name. A watch begins where the waiter's snapshot ended, so nothing is missed,
however late it begins.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from itertools import count

from lockfast.engines.etcd.keys import Row, end
from lockfast.engines.etcd.messages import heard, unwatch, watch
from lockfast.port import Wake


class Wait:
    """One waiter. `ahead` is what stands before it, as far as that is known: for a lock the claim
    just before it, and `sure` tells whether that one is the head.
    """

    __slots__ = ("ahead", "capacity", "id", "ident", "key", "revision", "since", "sure", "weight")

    def __init__(
        self, row: Row, ahead: Sequence[tuple[bytes, int, int]], since: int, *, sure: bool
    ) -> None:
        """`ahead`: key, revision and weight of each; `since`: the revision of the snapshot."""
        self.id = row.id
        self.key = row.key
        self.revision = row.revision
        self.weight = row.weight
        self.capacity = row.capacity
        self.ahead = {key: (revision, weight) for key, revision, weight in ahead}
        self.since = since
        self.sure = sure
        self.ident = 0

    def request(self) -> bytes:
        """Ask etcd to watch what matters to it."""
        if self.capacity == 1:
            (before,) = self.ahead
            return watch(self.ident, before, b"", self.since + 1)
        prefix = self.key[:-32]
        return watch(self.ident, prefix, end(prefix), self.since + 1)

    def let_in(self) -> bool:
        """Apply the rule to what is left ahead of it."""
        weight = sum(weight for _, weight in self.ahead.values())
        return weight + self.weight <= self.capacity


class Waits:
    """All waiters of one client. Shared between threads; nothing here waits."""

    def __init__(self, base: int) -> None:
        """Begin with nobody."""
        self._base = base
        self._lock = threading.Lock()
        self._idents = count(1)
        self._by_id: dict[str, Wait] = {}
        self._by_ident: dict[int, Wait] = {}

    def __len__(self) -> int:
        """Count them."""
        return len(self._by_id)

    def add(self, wait: Wait) -> list[bytes]:
        """Take a waiter in, or take in what has become of it; give what to tell etcd."""
        with self._lock:
            old = self._by_id.get(wait.id)
            if old is not None and (old.ahead.keys() == wait.ahead.keys() or wait.capacity > 1):
                # The same claim before it, or a watch on the whole name: that watch goes on.
                old.sure = old.sure or wait.sure
                return []
            return [*self._drop(wait.id), self._take(wait)]

    def _take(self, wait: Wait) -> bytes:
        wait.ident = next(self._idents)
        self._by_id[wait.id] = self._by_ident[wait.ident] = wait
        return wait.request()

    def drop(self, ids: Iterable[str]) -> list[bytes]:
        """Forget waiters; give what to tell etcd."""
        with self._lock:
            return [said for id_ in ids for said in self._drop(id_)]

    def _drop(self, id_: str) -> list[bytes]:
        wait = self._by_id.pop(id_, None)
        if wait is None:
            return []
        del self._by_ident[wait.ident]
        return [unwatch(wait.ident)]

    def again(self) -> list[bytes]:
        """Watch everything anew, on another stream, from where each began."""
        with self._lock:
            return [wait.request() for wait in self._by_id.values()]

    def hear(self, messages: Iterable[bytes]) -> tuple[list[Wake], list[Wait], list[bytes]]:
        """Take in what the watches say: who is let in, who has to look, what to tell etcd."""
        wakes, unsure, told = [], [], []
        with self._lock:
            for message in messages:
                ident, ended, gone = heard(message)
                wait = self._by_ident.get(ident)
                if wait is None:
                    continue
                if ended:  # compacted, or given up by the server: only a look can tell
                    self._drop(wait.id)
                    wakes.append(Wake(wait.id, granted=False))
                    continue
                for key, _ in gone:
                    wait.ahead.pop(key, None)
                if not gone:
                    continue
                if wait.capacity == 1 and not wait.sure:
                    told += self._drop(wait.id)
                    unsure.append(wait)
                elif wait.let_in():
                    told += self._drop(wait.id)
                    wakes.append(Wake(wait.id, granted=True, floor=self._floor(wait)))
        return wakes, unsure, told

    def _floor(self, wait: Wait) -> int:
        revisions = (revision for revision, _ in wait.ahead.values())
        return min(revisions, default=wait.revision) + self._base
