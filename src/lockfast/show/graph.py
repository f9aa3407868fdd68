"""Who waits for whom, as trees: below each holder its waiters, and below them theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from lockfast.primitives.lock import Holder
from lockfast.show.claims import by_name

SHOWN = 5  # waiters of one claim that are drawn; the others are counted
DEEP = 8  # levels that are drawn below the waiters of a holder


class Group(NamedTuple):
    """The waiters for one claim."""

    waiters: list[Branch]
    more: int
    """How many waiters are left out."""


class Branch(NamedTuple):
    """A claim, and who waits for it, or for what its thread or task holds."""

    claim: Holder
    held: Sequence[Holder] = ()
    """What the thread or task holds that waits with this claim."""
    groups: Sequence[Group] = ()
    again: bool = False
    """Whether this claim stands elsewhere already. Then nothing is below it."""


class Graph:
    """Which claims wait for which. A waiting claim lists what its thread or task holds."""

    def __init__(self, claims: Sequence[Holder]) -> None:
        """Build the graph from all claims that an engine shows, or from those on the names for
        which anybody waits.
        """
        self._waiters = {name.name: name.waiters for name in by_name(claims)}
        self._granted = {claim.id: claim for claim in claims if claim.granted}
        self._waits = {
            held: claim for claim in claims if not claim.granted for held in claim.holding
        }
        """By the id of a granted claim: the claim for which the same thread or task waits."""
        self._drawn: set[str] = set()

    def edges(self) -> list[tuple[Holder, Holder]]:
        """Return a pair of each waiting claim and each granted claim on the same name."""
        return [
            (waiter, holder)
            for holder in self._granted.values()
            for waiter in self._waiters.get(holder.name, ())
        ]

    def roots(self, first: Collection[str] = ()) -> Iterator[Branch]:
        """Yield a tree for each holder that has waiters, those with the most waiters first.

        Holders that wait for nothing come first, with all that wait for them. The holders that
        these trees did not reach wait in a circle, and come last. `first`: the ids of holders that
        come before all others.
        """
        held = sorted(self._granted.values(), key=lambda each: -len(self._waiters[each.name]))
        roots = [claim for claim in held if claim.id not in self._waits]
        rest = [claim for claim in held if claim.id in self._waits]
        for root in sorted((*roots, *rest), key=lambda claim: claim.id not in first):
            if self._followed(root):
                yield Branch(root, (), [self._group(root, DEEP)])

    def _followed(self, holder: Holder) -> bool:
        """Return whether the holder has a waiter that was not drawn yet."""
        return any(claim.id not in self._drawn for claim in self._waiters.get(holder.name, ()))

    def _group(self, holder: Holder, deep: int) -> Group:
        waiters = self._waiters.get(holder.name, ())
        group = Group([self._branch(waiter, deep) for waiter in waiters[:SHOWN]], 0)
        if len(waiters) > SHOWN:
            self._drawn.update(waiter.id for waiter in waiters[SHOWN:] if not waiter.holding)
        return group._replace(more=max(len(waiters) - SHOWN, 0))

    def _branch(self, waiter: Holder, deep: int) -> Branch:
        if waiter.id in self._drawn:
            return Branch(waiter, again=True)
        self._drawn.add(waiter.id)
        held = [self._granted[id_] for id_ in waiter.holding if id_ in self._granted]
        groups = [self._group(each, deep - 1) for each in held] if deep else []
        return Branch(waiter, held, groups)
