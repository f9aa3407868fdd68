"""The wait-for graph, drawn as trees: below each holder its waiters, and below them theirs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from rich.tree import Tree

from lockfast import Holder
from lockfast.plain import plain
from lockfast.show.claims import bearer, by_name

SHOWN = 5  # waiters of one claim that are drawn; the others are counted
DEEP = 8  # levels that are drawn below the waiters of a holder


class Graph:
    """Which claims wait for which. A waiting claim lists what its thread or task holds."""

    def __init__(self, claims: Sequence[Holder]) -> None:
        """Build the graph from all claims that an engine shows."""
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

    def trees(self) -> list[Tree]:
        """Return a tree for each holder that has waiters, those with the most waiters first.

        Holders that wait for nothing come first, with all that wait for them. The holders that
        these trees did not reach wait in a circle, and come last.
        """
        held = sorted(self._granted.values(), key=lambda each: -len(self._waiters[each.name]))
        roots = [claim for claim in held if claim.id not in self._waits]
        rest = [claim for claim in held if claim.id in self._waits]
        return [self._tree(root) for root in (*roots, *rest) if self._followed(root)]

    def _followed(self, holder: Holder) -> bool:
        """Return whether the holder has a waiter that was not drawn yet."""
        return any(claim.id not in self._drawn for claim in self._waiters.get(holder.name, ()))

    def _tree(self, holder: Holder) -> Tree:
        tree = Tree(_line(f"{bearer(holder)} holds {plain(holder.name)}"))
        self._grow(tree, holder, DEEP)
        return tree

    def _grow(self, tree: Tree, holder: Holder, deep: int) -> None:
        waiters = self._waiters.get(holder.name, ())
        for waiter in waiters[:SHOWN]:
            if waiter.id in self._drawn:
                tree.add(_line(f"{bearer(waiter)}: see above", "dim"))
                continue
            self._drawn.add(waiter.id)
            held = [self._granted[id_] for id_ in waiter.holding if id_ in self._granted]
            names = ", ".join(plain(each.name) for each in held)
            branch = tree.add(
                _line(f"{bearer(waiter)} waits" + (f", holding {names}" if held else ""))
            )
            for each in held if deep else ():
                self._grow(branch, each, deep - 1)
        if len(waiters) > SHOWN:
            tree.add(_line(f"and {len(waiters) - SHOWN} more", "dim"))
            self._drawn.update(waiter.id for waiter in waiters[SHOWN:] if not waiter.holding)


def _line(words: str, style: str = "") -> Text:
    """Return a line that is cut off at the edge of the screen."""
    return Text(words, style=style, no_wrap=True, overflow="ellipsis")
