"""Recovery: when the faults have stopped, somebody who asks is granted in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tests.robustness.checkers.belief import beliefs
from tests.robustness.checkers.violation import ALWAYS, NEVER, Violation, faults
from tests.robustness.history import Kind, Record

Span = tuple[float, float]
BREATH = 0.2  # seconds that may lie between two who ask


class Wait(NamedTuple):
    """How long a name was held by nobody while somebody asked for it and nothing was broken."""

    name: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


def waits(history: Iterable[Record]) -> list[Wait]:
    """Give the longest such wait of each name, the longest first.

    Those who give up and those who come after them wait together: each for a moment, and all of
    them in vain. Who asks for several names at once is left out: it may have some of them, and
    keep others from them, before it is told of all.
    """
    history = list(history)
    several = _several(history)
    calm = _free((fault.began, fault.ended) for fault in faults(history))
    asked: dict[str, list[Span]] = defaultdict(list)
    for record in sorted(history, key=lambda record: record.began):
        if record.kind is Kind.ACQUIRE and record.name not in several:
            asked[record.name].append((record.began, record.ended + BREATH))
    held = beliefs(history)
    longest = []
    for name, spans in asked.items():
        # A grant is there from when it was told: until then its claimant waits.
        idle = _free((belief.began, belief.ended) for belief in held.get(name, ()))
        found = _both(_both(idle, calm), _joined(spans))
        began, ended = max(found, key=lambda span: span[1] - span[0], default=(0.0, 0.0))
        longest.append(Wait(name, began, ended))
    return sorted(longest, key=lambda wait: -wait.seconds)


def recovers(history: Iterable[Record], bound: float) -> list[Violation]:
    """What somebody asks for is held again within that time, while nothing is broken."""
    return [
        Violation(
            "recovers",
            f"{wait.name}: nobody held it for {wait.seconds:.3f} s, and somebody asked for it all "
            f"the time; {bound:.3f} s are allowed",
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


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Join those that meet; they come in the order of their begins."""
    found: list[Span] = []
    for began, ended in spans:
        if found and began <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], ended)
        else:
            found.append((began, ended))
    return found
