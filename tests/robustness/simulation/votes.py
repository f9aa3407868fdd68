"""What must hold on Redlock, seen from its clients: nobody sees all nodes at once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD
from lockfast.guards.mark import Shown
from tests.robustness.simulation.world import Broken, World

if TYPE_CHECKING:
    from tests.robustness.simulation.party import Party

NEAR = 1e-6


class Votes:
    """Raises `Broken` as soon as a rule is."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.parties: list[Party] = []
        self.seen: Counter[str] = Counter()
        self.jumped = False
        """Whether a node's clock has jumped ahead. Where that node is one of a bare majority, two
        can then hold at once; tokens stay unique and in order all the same."""
        self._owners: dict[tuple[str, int], str] = {}  # who was told a token
        self._highest: dict[str, int] = {}  # told so far, by name
        self._before: dict[str, int] = {}  # the highest when a claim was first seen, by id
        self._marks: dict[str, tuple[int, str]] = {}

    def look(self, party: Party) -> None:
        """Check what a client has come to believe."""
        for claim in party.session.table._by_id.values():
            if claim.id not in self._before:
                self._before[claim.id] = self._highest.get(claim.shape.name, 0)
            if claim.phase is HELD and party.believed.get(claim.id) != claim.until:
                first = claim.id not in party.believed
                party.believed[claim.id] = claim.until
                if first:
                    self._told(claim)
                self._alone(party, claim)

    def _told(self, claim: Claim) -> None:
        self.seen["grants"] += 1
        name, token = claim.shape.name, claim.ticket
        if self._owners.setdefault((name, token), claim.id) != claim.id:
            raise Broken(f"token {token} of {name} was given twice")
        if token <= self._before[claim.id]:
            raise Broken(f"{name}: token {token} after {self._before[claim.id]} had been told")
        self._highest[name] = max(token, self._highest.get(name, 0))

    def _alone(self, party: Party, claim: Claim) -> None:
        if self.jumped:
            return
        mine = self._left(party, claim)
        for other in self.parties:
            for each in other.claims():
                if each is not claim and each.shape.name == claim.shape.name:
                    left = min(mine, self._left(other, each))
                    if left > NEAR:
                        raise Broken(
                            f"{party.process.name} and {other.process.name} both believe in "
                            f"{claim.shape.name} for {left:.4f} s more"
                        )

    @staticmethod
    def _left(party: Party, claim: Claim) -> float:
        """Give the seconds for which somebody believes to hold."""
        if claim.phase is not HELD or claim.loss is not None:
            return 0.0
        return (claim.until - party.process.time()) / party.process.rate

    # --- the resources ------------------------------------------------------------------------

    def admitted(self, shown: Shown) -> None:
        """Check what a guard has let in."""
        highest, owner = self._marks.get(shown.name, (0, ""))
        if shown.token < highest or (shown.token == highest and owner != shown.id):
            raise Broken(f"{shown.name} let {shown.token} in after {highest}")
        self._marks[shown.name] = (shown.token, shown.id)

    def refused(self, shown: Shown) -> None:
        """Check what a guard has not let in: never who holds."""
        self.seen["refusals"] += 1
        if self.jumped:
            return
        for party in self.parties:
            for claim in party.claims():
                if claim.id == shown.id and self._left(party, claim) > NEAR:
                    raise Broken(f"{shown.name} refused {shown.id[20:]}, who holds it")

    def written(self, shown: Shown, read: int, value: int) -> None:
        """Check a write that was let in."""
        self.seen["writes"] += 1
        if read != value:
            raise Broken(f"an update of {shown.name} was lost: {value} was written over")

    def reread(self, shown: Shown, read: int, value: int) -> None:
        """Nobody only reads."""
        raise NotImplementedError
