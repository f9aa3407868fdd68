"""Finds hot names: locks that have waiters, or whose holder changes often."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

from lockfast import Holder

MINUTE = 60.0


class Hot(NamedTuple):
    """A name that has waiters, or that was granted within the last minute."""

    name: str
    waiters: int
    grants: int
    """New holders that were seen within the last minute. Those between two looks are not seen."""


class Heat:
    """Counts the grants of the last minute from one look at the engine to the next."""

    def __init__(self) -> None:
        """Start without a look."""
        self._known: set[str] | None = None
        self._grants: deque[tuple[float, str]] = deque()

    def look(self, claims: Sequence[Holder], now: float) -> list[Hot]:
        """Add a look at all claims, and return the hot names, the hottest first."""
        held = {claim.id: claim.name for claim in claims if claim.granted}
        if self._known is not None:  # holders in the first look were granted before it: no grants
            self._grants += [(now, name) for id_, name in held.items() if id_ not in self._known]
        self._known = set(held)
        while self._grants and self._grants[0][0] < now - MINUTE:
            self._grants.popleft()
        waiters = Counter(claim.name for claim in claims if not claim.granted)
        grants = Counter(name for _, name in self._grants)
        hot = [Hot(name, waiters[name], grants[name]) for name in waiters | grants]
        return sorted(hot, key=lambda each: (-each.waiters, -each.grants, each.name))
