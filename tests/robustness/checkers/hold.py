"""The lock as an object: acquire, release and expiry, with tickets in order, explain all grants."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from tests.robustness.checkers.belief import Belief, beliefs
from tests.robustness.checkers.search import Operation, unexplained
from tests.robustness.checkers.violation import Violation, Windows, faults
from tests.robustness.history import Kind, Record


class Held(NamedTuple):
    """Who holds, how much of it, and the highest ticket that was ever let in."""

    last: int
    weight: int
    holders: frozenset[int]


class Acquire(Operation[Held]):
    """A grant: it fits beside those who hold, and no later ticket was let in before."""

    __slots__ = ("belief",)

    def __init__(self, belief: Belief) -> None:
        super().__init__(belief.asked, belief.began, f"{belief.client} was granted {belief.token}")
        self.belief = belief

    def after(self, state: Held) -> Held | None:
        token, weight = self.belief.token, state.weight + self.belief.weight
        if token <= state.last or weight > self.belief.capacity:
            return None
        return Held(token, weight, state.holders | {token})

    def doomed(self, state: Held) -> bool:
        return self.belief.token <= state.last


class Leave(Operation[Held]):
    """A release that was confirmed, or the moment from which nothing is promised any more."""

    __slots__ = ("belief",)

    def __init__(self, belief: Belief, began: float, ended: float) -> None:
        super().__init__(began, ended, f"{belief.client} released {belief.token}")
        self.belief = belief

    def after(self, state: Held) -> Held | None:
        belief = self.belief
        if belief.token not in state.holders:
            return None
        return Held(state.last, state.weight - belief.weight, state.holders - {belief.token})

    def doomed(self, state: Held) -> bool:
        return self.belief.token <= state.last and self.belief.token not in state.holders


def lock_object(history: Iterable[Record]) -> list[Violation]:
    """The grants and releases of each name can be put in one order that the rule explains.

    An acquisition of unknown outcome can only stand in others' way, so it explains nothing and is
    left out. A hold that was not given back in time ends, for the search, as soon as it may: when
    its holder's right to believe does, or when a release of unknown outcome is sent. Ending it
    early can only make room. Whoever was told too late, or lives through a moved clock or
    lost data, is left out.
    """
    history = list(history)
    shaken = Windows(faults(history), ("clock", "data"))
    wrong = []
    for name, held in sorted(beliefs(history).items()):
        operations: list[Operation[Held]] = []
        for belief in held:
            late = belief.until <= belief.began
            if late or shaken.meet(belief.asked, max(belief.until, belief.freed)):
                continue
            operations.append(Acquire(belief))
            if belief.freed and belief.until >= belief.ended:
                operations.append(Leave(belief, belief.ended, belief.freed))
            else:
                # A loss that came early has come at a time that nobody knows; `kept` tells of it.
                early = belief.how is Kind.LOST and belief.until >= belief.ended
                end = math.nextafter(belief.began if early else belief.until, math.inf)
                operations.append(Leave(belief, end, end))
        found = unexplained(Held(0, 0, frozenset()), operations)
        if found is not None:
            said = f"{name}: no order of {len(operations)} steps explains that {found.said}"
            wrong.append(Violation("lock_object", said, found.began, found.ended))
    return wrong
