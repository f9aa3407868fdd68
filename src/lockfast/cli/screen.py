"""The screen of `watch`: the table, the hot names, who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from lockfast import Holder, Tie
from lockfast.cli.claims import Name, by_name
from lockfast.cli.graph import Graph
from lockfast.cli.heat import Hot
from lockfast.cli.table import table
from lockfast.plain import plain

HOTTEST = 5  # names that are called hot
FRAME = 6  # lines of titles and of the table's own
WAITS = 12  # lines of the graph


class View(NamedTuple):
    """What one look has shown."""

    claims: Sequence[Holder]
    hot: Sequence[Hot]
    circles: Sequence[Sequence[Tie]]


def screen(title: str, view: View | None, trouble: str, height: int) -> RenderableType:
    """Draw. What does not fit is counted: the most waited for come first."""
    parts: list[RenderableType] = [Text(plain(title), style="bold reverse")]
    if trouble:
        parts.append(Text(plain(trouble), style="bold red"))
    if view is None:
        return Group(*parts)
    names = sorted(by_name(view.claims), key=lambda each: (-len(each.waiters), each.name))
    below = [*_circles(view.circles), *_waits(view.claims), *_hot(view.hot)]
    room = max(height - FRAME - sum(map(_lines, below)), 3)
    shown = _fitting(names, room)
    parts.append(table(shown, whole=False) if names else Text("\nNo lock is held.\n"))
    if len(shown) < len(names):
        parts.append(Text(f"and {len(names) - len(shown)} more names", style="dim"))
    return Group(*parts, *below)


def _fitting(names: Sequence[Name], room: int) -> list[Name]:
    shown: list[Name] = []
    for name in names:
        room -= max(len(name.holders), 1)
        if room < 0:
            break
        shown.append(name)
    return shown


def _circles(circles: Sequence[Sequence[Tie]]) -> list[RenderableType]:
    return [
        Text(f"deadlock: {plain('; '.join(map(str, circle)))}", style="bold red")
        for circle in circles
    ]


def _waits(claims: Sequence[Holder]) -> list[RenderableType]:
    parts: list[RenderableType] = []
    room = WAITS
    for tree in Graph(claims).trees():
        room -= _lines(tree)
        if room < 0:
            parts.append(Text("and more", style="dim"))
            break
        parts.append(tree)
    return [Text("who waits for whom", style="bold"), *parts] if parts else []


def _hot(hot: Sequence[Hot]) -> list[RenderableType]:
    if not hot:
        return []
    grid = Table.grid(padding=(0, 2))
    for each in hot[:HOTTEST]:
        grid.add_row(
            Text(plain(each.name)),
            f"{each.waiters} waiting",
            f"{each.grants} grants seen in a minute",
        )
    return [Text("\nhot names", style="bold"), grid]


def _lines(part: RenderableType) -> int:
    """Count the lines that a part takes, unless they are folded."""
    if isinstance(part, Tree):
        return 1 + sum(map(_lines, part.children))
    if isinstance(part, Table):
        return part.row_count
    return str(part).count("\n") + 1
