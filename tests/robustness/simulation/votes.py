"""What must hold on Redlock, seen from its clients: nobody sees all nodes at once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lockfast.claims.claim import HELD, Live
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
        for live in party.session.claims._by_id.values():
            if live.id not in self._before:
                self._before[live.id] = self._highest.get(live.shape.name, 0)
            if live.phase is HELD and party.believed.get(live.id) != live.until:
                first = live.id not in party.believed
                party.believed[live.id] = live.until
                if first:
                    self._told(live)
                self._alone(party, live)

    def _told(self, live: Live) -> None:
        self.seen["grants"] += 1
        name, token = live.shape.name, live.ticket
        if self._owners.setdefault((name, token), live.id) != live.id:
            raise Broken(f"token {token} of {name} was given twice")
        if token <= self._before[live.id]:
            raise Broken(f"{name}: token {token} after {self._before[live.id]} had been told")
        self._highest[name] = max(token, self._highest.get(name, 0))

    def _alone(self, party: Party, live: Live) -> None:
        if self.jumped:
            return
        mine = self._left(party, live)
        for other in self.parties:
            for each in other.lives():
                if each is not live and each.shape.name == live.shape.name:
                    left = min(mine, self._left(other, each))
                    if left > NEAR:
                        raise Broken(
                            f"{party.process.name} and {other.process.name} both believe in "
                            f"{live.shape.name} for {left:.4f} s more"
                        )

    @staticmethod
    def _left(party: Party, live: Live) -> float:
        """Give the seconds for which somebody believes to hold."""
        if live.phase is not HELD or live.loss is not None:
            return 0.0
        return (live.until - party.process.time()) / party.process.rate

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
            for live in party.lives():
                if live.id == shown.id and self._left(party, live) > NEAR:
                    raise Broken(f"{shown.name} refused {shown.id[20:]}, who holds it")

    def written(self, shown: Shown, read: int, value: int) -> None:
        """Check a write that was let in."""
        self.seen["writes"] += 1
        if read != value:
            raise Broken(f"an update of {shown.name} was lost: {value} was written over")

    def reread(self, shown: Shown, read: int, value: int) -> None:
        """Nobody only reads."""
        raise NotImplementedError
