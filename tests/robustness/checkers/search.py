"""Linearizability, by the search of Wing, Gong and Lowe: just in time, one event after another.

A configuration is a state of the object, and which of the operations under way have taken effect
in it. When an operation is told, every configuration in which it has not yet taken effect is
extended by what is under way, until it has. If none is left, no order explains what was told.
Memory and time grow with what is under way at once, not with the length of the history.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

S = TypeVar("S")
INFINITY = float("inf")


class Operation(ABC, Generic[S]):
    """Something that takes effect once between its begin and its end, or, if it has no end, at
    any later time or never.
    """

    __slots__ = ("began", "ended", "said")

    def __init__(self, began: float, ended: float, said: str) -> None:
        self.began = began
        self.ended = ended
        self.said = said

    @abstractmethod
    def after(self, state: S) -> S | None:
        """Give the state after it, the same object if it changes nothing; None if it cannot be."""

    @abstractmethod
    def doomed(self, state: S) -> bool:
        """Whether it cannot be in this state, nor in any that follows."""


Configuration = tuple[S, frozenset[Operation[S]]]


def unexplained(initial: S, operations: Iterable[Operation[S]]) -> Operation[S] | None:
    """Give the first operation that nothing explains; None if all can be put in one order."""
    search = _Search(initial)
    events: list[tuple[float, bool, int, Operation[S]]] = []
    for i, operation in enumerate(operations):
        events.append((operation.began, False, i, operation))
        if operation.ended != INFINITY:
            events.append((operation.ended, True, i, operation))
    events.sort(key=lambda event: event[:3])
    for _, ends, _, operation in events:
        if not (search.end(operation) if ends else search.begin(operation)):
            return operation
    return None


class _Search(Generic[S]):
    def __init__(self, initial: S) -> None:
        self._all: set[Configuration[S]] = {(initial, frozenset())}
        self._under_way: list[Operation[S]] = []
        self._doubtful: list[Operation[S]] = []

    def begin(self, operation: Operation[S]) -> bool:
        """Let it take effect from now on. False if no configuration is left."""
        if operation.ended == INFINITY:
            if not all(operation.doomed(state) for state, _ in self._all):
                self._doubtful.append(operation)
            return True
        self._under_way.append(operation)
        found = set()
        for state, done in self._all:
            after = operation.after(state)
            if after is state:
                found.add((state, done | {operation}))
            elif after is not None or not operation.doomed(state):
                found.add((state, done))
        self._all = found
        return bool(found)

    def end(self, operation: Operation[S]) -> bool:
        """Keep the configurations in which it has taken effect. False if there is none."""
        found: set[Configuration[S]] = set()
        seen: set[Configuration[S]] = set()
        stack = list(self._all)
        while stack:
            state, done = stack.pop()
            if operation in done:
                found.add((state, done - {operation}))
                continue
            for each in (*self._under_way, *self._doubtful):
                if each in done:
                    continue
                after = each.after(state)
                if after is None or after is state:
                    continue  # what changes nothing was taken when it could be
                following = self._settled(after, done | {each} if each.ended < INFINITY else done)
                if following is not None and following not in seen:
                    seen.add(following)
                    stack.append(following)
        self._all = found
        self._under_way.remove(operation)
        if self._doubtful:
            self._doubtful = [
                each for each in self._doubtful if not all(each.doomed(state) for state, _ in found)
            ]
        return bool(found)

    def _settled(
        self, state: S, done: frozenset[Operation[S]]
    ) -> tuple[S, frozenset[Operation[S]]] | None:
        """Take what changes nothing at once: it is never worse. None if it leads nowhere."""
        also = []
        for each in self._under_way:
            if each in done:
                continue
            after = each.after(state)
            if after is state:
                also.append(each)
            elif after is None and each.doomed(state):
                return None
        return (state, done.union(also)) if also else (state, done)
