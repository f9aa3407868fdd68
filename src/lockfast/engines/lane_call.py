"""A call that carries requests of several callers: which of them share it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from lockfast.engines.lane_entry import Entry

R = TypeVar("R")


class Call(Generic[R]):
    """A call of the engine that one request leads, and the requests that it carries."""

    __slots__ = ("_latest", "_left", "_taken", "batch", "followers", "leader", "mark", "room")

    def __init__(self, leader: Entry[R], latest: float, size: int) -> None:
        """Begin without requests.

        `latest`: the latest deadline of a request in the call.
        `size`: how many claims it carries.
        """
        self.leader = leader
        self.mark = object()
        """Stands for the call in the lane. Each request remembers the calls before it. If it
        remembered their requests too, a busy lane would keep every request that it ever had."""
        self.batch: list[Entry[R]] = []
        self.followers: list[Entry[R]] = []
        """Requests that are sent right behind the call, each by itself."""
        self.room = size
        self._latest = latest
        self._taken: set[Hashable] = set()
        self._left: set[Hashable] = set()

    def place(self, entry: Entry[R]) -> list[Entry[R]] | None:
        """Return the list for the next request in the order of arrival. None: it is left out.

        A call ends when all its requests have ended, and a thread that leads it must not wait much
        longer than until its own deadline. So one with a later deadline is left to another leader.
        A request with the key of one in the call follows the call.
        """
        keys = entry.keys
        later = entry.deadline > self._latest or not self._left.isdisjoint(keys)
        if later and entry is not self.leader:
            self._left.update(keys)  # what comes after it for the same name must not overtake it
            return None
        place = self.batch
        if not self._taken.isdisjoint(keys):
            place = self.followers
        elif place and len(keys) > self.room:
            self.room = 0
            return None
        else:
            self.room -= len(keys)
        self._taken.update(keys)
        return place

    def entries(self) -> list[Entry[R]]:
        """Return all requests that were taken out of the lane for this call."""
        return [*self.batch, *self.followers]

    def others(self) -> list[Entry[R]]:
        """Return those that belong to other callers than the leader."""
        return [entry for entry in self.entries() if entry is not self.leader]
