"""Hot names: where claims wait, and where the lock goes from hand to hand."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

from lockfast import Holder

MINUTE = 60.0


class Hot(NamedTuple):
    """A name that is in demand."""

    name: str
    waiters: int
    grants: int
    """Holders that were seen to come within the last minute: at most one per look and name."""


class Heat:
    """What a watcher has seen so far."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._known: set[str] | None = None
        self._grants: deque[tuple[float, str]] = deque()

    def look(self, claims: Sequence[Holder], now: float) -> list[Hot]:
        """Take a listing in; give the hottest names first."""
        held = {claim.id: claim.name for claim in claims if claim.granted}
        if self._known is not None:  # whoever was there at the first look came before it
            self._grants += [(now, name) for id_, name in held.items() if id_ not in self._known]
        self._known = set(held)
        while self._grants and self._grants[0][0] < now - MINUTE:
            self._grants.popleft()
        waiters = Counter(claim.name for claim in claims if not claim.granted)
        grants = Counter(name for _, name in self._grants)
        hot = [Hot(name, waiters[name], grants[name]) for name in waiters | grants]
        return sorted(hot, key=lambda each: (-each.waiters, -each.grants, each.name))
