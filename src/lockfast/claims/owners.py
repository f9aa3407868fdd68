"""Who has which claims: the index by thread or task. Under the mutex of the table that keeps it,
which lets an interruption in the same thread in: each method bears that another runs between two of
its steps.
"""

from __future__ import annotations

from lockfast.claims.claim import HELD, Live

NAMED = 16  # held names that a waiting claim tells of


class Owners(dict[object, dict[str, Live]]):
    """Claims by the thread or task that made them, and by id. One that has none is forgotten."""

    def add(self, live: Live) -> None:
        """Take a claim in."""
        while True:
            owned = self.setdefault(live.owner, {})
            owned[live.id] = live
            if self.get(live.owner) is owned:  # else an interruption has dropped it as empty
                return

    def drop(self, live: Live) -> None:
        """Forget a claim."""
        owned = self.get(live.owner)
        if owned is not None and owned.pop(live.id, None) is not None and not owned:
            others = self.pop(live.owner, {})
            for each in list(others.values()):  # an interruption has added it before that
                self.add(each)

    def claims(self, owner: object) -> list[Live]:
        """List its claims."""
        return list(self.get(owner, {}).values())

    def holding(self, owner: object) -> dict[str, str]:
        """Tell what it holds: names by ids, the last ones, not too many for a payload."""
        held = [live for live in self.claims(owner) if live.phase is HELD]
        return {live.id: live.shape.name for live in held[-NAMED:]}
