"""A violation: what a checker found wrong, in words, and when; and the faults that excuse it."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable
from typing import NamedTuple

from tests.robustness.history import Kind, Record

NEVER, ALWAYS = float("-inf"), float("inf")
BREAKS = {
    "pause-client": {"pause"},
    "clock-server": {"clock"},
    "clock-client": {"clock"},
    "clock-ahead": {"clock"},
    "demoted-primary": {"data"},
    "restart-empty": {"data"},
    "stale-failover": {"data"},
}
"""What a fault may break, where its record does not say so itself."""


class Violation(NamedTuple):
    """What is wrong. The span is the life of what it is about: a fault in it may be an excuse."""

    checker: str
    said: str
    began: float = NEVER
    ended: float = ALWAYS


class Fault(NamedTuple):
    """One fault, from when until when."""

    kind: str
    breaks: frozenset[str]
    began: float
    ended: float


def faults(history: Iterable[Record]) -> list[Fault]:
    """Give the faults of a history, in the order in which they began."""
    found = []
    for record in history:
        if record.kind is Kind.FAULT:
            said = record.extra.get("breaks")
            breaks = BREAKS.get(record.name, set()) if said is None else re.findall(r"\w+", said)
            found.append(Fault(record.name, frozenset(breaks), record.began, record.ended))
            # What an engine does wrong when a fault is over: see `aftermath` of its site.
            if after := float(record.extra.get("aftermath", 0.0)):
                lost = frozenset({"data"})
                found.append(Fault(record.name, lost, record.ended, record.ended + after))
    return sorted(found, key=lambda fault: fault.began)


class Windows:
    """The times in which something may be broken."""

    def __init__(self, among: Iterable[Fault], breaks: Collection[str] | None = None) -> None:
        """Take those faults that break one of these; all if nothing is said."""
        self._faults = [
            fault for fault in among if breaks is None or not fault.breaks.isdisjoint(breaks)
        ]
        # The furthest end of all that began so far: one look tells whether any reaches a span.
        self._begins = [fault.began for fault in self._faults]
        self._ends = list(itertools.accumulate((fault.ended for fault in self._faults), max))

    def meet(self, began: float, ended: float) -> bool:
        """Whether a fault was in force at some time of the span."""
        before = bisect_right(self._begins, ended)
        return before > 0 and self._ends[before - 1] >= began

    def kinds(self, began: float, ended: float) -> list[str]:
        """Name the faults that were in force at some time of the span."""
        if not self.meet(began, ended):
            return []
        return sorted({f.kind for f in self._faults if f.began <= ended and began <= f.ended})
