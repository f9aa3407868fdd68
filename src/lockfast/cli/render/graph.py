"""The wait-for graph, drawn as trees: below each holder its waiters, and below them theirs."""

from __future__ import annotations

from rich.text import Text
from rich.tree import Tree

from lockfast.plain import plain
from lockfast.show.claims import bearer
from lockfast.show.graph import Branch, Graph


def trees(graph: Graph) -> list[Tree]:
    """Return the trees of a graph, each as Rich draws it."""
    return [
        _grown(Tree(_line(f"{bearer(root.claim)} holds {plain(root.claim.name)}")), root)
        for root in graph.roots()
    ]


def _grown(tree: Tree, branch: Branch) -> Tree:
    for group in branch.groups:
        for waiter in group.waiters:
            if waiter.again:
                tree.add(_line(f"{bearer(waiter.claim)}: see above", "dim"))
                continue
            names = ", ".join(plain(each.name) for each in waiter.held)
            words = f"{bearer(waiter.claim)} waits" + (f", holding {names}" if names else "")
            _grown(tree.add(_line(words)), waiter)
        if group.more:
            tree.add(_line(f"and {group.more} more", "dim"))
    return tree


def _line(words: str, style: str = "") -> Text:
    """Return a line that is cut off at the edge of the screen."""
    return Text(words, style=style, no_wrap=True, overflow="ellipsis")
