"""Who has which claims: the index by thread or task. Under the mutex of the table that keeps it,
which lets an interruption in the same thread in: each method bears that another runs between two of
its steps.
"""

from __future__ import annotations

from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD

NAMED = 16  # held names that a waiting claim tells of


class Owners(dict[object, dict[str, Claim]]):
    """Claims by the thread or task that made them, and by id. One that has none is forgotten."""

    def add(self, claim: Claim) -> None:
        """Take a claim in."""
        while True:
            owned = self.setdefault(claim.owner, {})
            owned[claim.id] = claim
            if self.get(claim.owner) is owned:  # else an interruption has dropped it as empty
                return

    def drop(self, claim: Claim) -> None:
        """Forget a claim."""
        owned = self.get(claim.owner)
        if owned is not None and owned.pop(claim.id, None) is not None and not owned:
            others = self.pop(claim.owner, {})
            for each in list(others.values()):  # an interruption has added it before that
                self.add(each)

    def claims(self, owner: object) -> list[Claim]:
        """List its claims."""
        return list(self.get(owner, {}).values())

    def holding(self, owner: object) -> dict[str, str]:
        """Return what it holds: names by ids, the last ones, not too many for a payload."""
        held = [claim for claim in self.claims(owner) if claim.phase is HELD]
        return {claim.id: claim.shape.name for claim in held[-NAMED:]}
