"""The index of claims by thread or task.

The table calls it under its mutex, which is re-entrant. A signal handler or finalizer may therefore
call a method between two steps of another one, and each method tolerates that.
"""

from __future__ import annotations

from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD

NAMED = 16  # held names that the payload of a claim lists


class Owners(dict[object, dict[str, Claim]]):
    """Claims by the thread or task that made them, then by id. Empty owners are removed."""

    def add(self, claim: Claim) -> None:
        """Add a claim."""
        while True:
            owned = self.setdefault(claim.owner, {})
            owned[claim.id] = claim
            if self.get(claim.owner) is owned:  # else an interruption found it empty and removed it
                return

    def drop(self, claim: Claim) -> None:
        """Remove a claim."""
        owned = self.get(claim.owner)
        if owned is not None and owned.pop(claim.id, None) is not None and not owned:
            others = self.pop(claim.owner, {})
            for each in list(others.values()):  # an interruption added these before the pop
                self.add(each)

    def claims(self, owner: object) -> list[Claim]:
        """Return the claims of an owner."""
        return list(self.get(owner, {}).values())

    def holding(self, owner: object) -> dict[str, str]:
        """Return the names that an owner holds, by claim id: the last NAMED, to fit a payload."""
        held = [claim for claim in self.claims(owner) if claim.phase is HELD]
        return {claim.id: claim.shape.name for claim in held[-NAMED:]}
