"""Recovery: when the faults have stopped, somebody who waits is granted in time."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.robustness.checkers.belief import beliefs
from tests.robustness.checkers.violation import ALWAYS, NEVER, Violation, faults
from tests.robustness.history import Kind, Record

Span = tuple[float, float]


class Wait(NamedTuple):
    """How long a name was held by nobody while somebody waited and nothing was broken."""

    name: str
    client: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


def waits(history: Iterable[Record]) -> list[Wait]:
    """Give the longest such wait of each name, the longest first.

    Who asks for several names at once is left out: it may have some of them, and keep others from
    them, before it is told of all.
    """
    history = list(history)
    several = _several(history)
    calm = _free((fault.began, fault.ended) for fault in faults(history))
    asked: dict[str, list[Record]] = defaultdict(list)
    for record in history:
        if record.kind is Kind.ACQUIRE and record.name not in several:
            asked[record.name].append(record)
    held = beliefs(history)
    longest = []
    for name, records in asked.items():
        # A grant is there from when it was told: until then its claimant waits.
        idle = _free((belief.began, belief.ended) for belief in held.get(name, ()))
        of = _of(records, _both(idle, calm))
        longest.append(max(of, key=lambda wait: wait.seconds))
    return sorted(longest, key=lambda wait: -wait.seconds)


def recovers(history: Iterable[Record], bound: float) -> list[Violation]:
    """Nobody waits for longer than that for what nobody holds, while nothing is broken."""
    return [
        Violation(
            "recovers",
            f"{wait.name}: {wait.client} waited {wait.seconds:.3f} s for what nobody held; "
            f"{bound:.3f} s are allowed",
            wait.began,
            wait.ended,
        )
        for wait in waits(history)
        if wait.seconds > bound
    ]


def _several(history: Iterable[Record]) -> set[str]:
    """Give the names that were ever asked for together with others."""
    asked: dict[tuple[str, float], set[str]] = defaultdict(set)
    for record in history:
        if record.kind is Kind.ACQUIRE:
            asked[record.client, record.began].add(record.name)
    return {name for names in asked.values() if len(names) > 1 for name in names}


def _free(taken: Iterable[Span]) -> list[Span]:
    """Give the times between the taken ones, which are in the order of their begins."""
    found, began = [], NEVER
    for start, stop in taken:
        if start > began:
            found.append((began, start))
        began = max(began, stop)
    return [*found, (began, ALWAYS)]


def _both(some: list[Span], others: list[Span]) -> list[Span]:
    """Give the times that are in both; each list is in order and disjoint."""
    found = []
    i = j = 0
    while i < len(some) and j < len(others):
        began = max(some[i][0], others[j][0])
        ended = min(some[i][1], others[j][1])
        if began < ended:
            found.append((began, ended))
        if some[i][1] < others[j][1]:
            i += 1
        else:
            j += 1
    return found


def _of(records: list[Record], idle: list[Span]) -> Iterator[Wait]:
    ends = [ended for _, ended in idle]
    for record in records:
        yield Wait(record.name, record.client, record.began, record.began)
        for i in range(bisect_right(ends, record.began), len(idle)):
            began, ended = max(idle[i][0], record.began), min(idle[i][1], record.ended)
            if began >= ended:
                break
            yield Wait(record.name, record.client, began, ended)
