"""The screen of `watch`: the table of locks, deadlocks, who waits for whom, and hot names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import ConsoleDimensions, Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from lockfast import Holder, Tie
from lockfast.cli.render.graph import trees
from lockfast.cli.render.hot_names import Hot
from lockfast.cli.render.table import table
from lockfast.plain import plain
from lockfast.show.claims import Name, by_name
from lockfast.show.graph import Graph

HOTTEST = 5  # hot names at most; fewer on a low screen
FRAME = 6  # lines that the titles and the frame of the table take
WAITS = 12  # lines of the graph at most; a third of a low screen
CIRCLES = 3  # deadlocks that are shown; the others are counted


class View(NamedTuple):
    """The result of one look at the engine."""

    claims: Sequence[Holder]
    hot: Sequence[Hot]
    circles: Sequence[Sequence[Tie]]


def screen(title: str, view: View | None, trouble: str, size: ConsoleDimensions) -> RenderableType:
    """Return the screen for a view. Names with the most waiters come first.

    Names that do not fit are only counted. `trouble`: an error message to show, or "".
    """
    width, height = size
    parts: list[RenderableType] = [_line(plain(title), "bold reverse")]
    if trouble:
        parts.append(_line(plain(trouble), "bold red"))
    if view is None:
        return Group(*parts)
    names = sorted(by_name(view.claims), key=lambda each: (-len(each.waiters), each.name))
    below = [
        *_circles(view.circles),
        *_waits(view.claims, min(WAITS, height // 3)),
        *_hot(view.hot[: min(HOTTEST, height // 8)], width),
    ]
    room = max(height - FRAME - sum(_lines(part, width) for part in below), 3)
    shown = _fitting(names, room)
    parts.append(table(shown, width, whole=False) if names else Text("\nNo lock is held.\n"))
    if len(shown) < len(names):
        more = len(names) - len(shown)
        parts.append(Text(f"and {more} more name{'s' if more > 1 else ''}", style="dim"))
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
    told = [
        Text(f"deadlock: {plain('; '.join(map(str, circle)))}", style="bold red")
        for circle in circles[:CIRCLES]
    ]
    more = len(circles) - CIRCLES
    return [*told, *([_line(f"and {more} more deadlocks", "bold red")] if more > 0 else [])]


def _waits(claims: Sequence[Holder], room: int) -> list[RenderableType]:
    drawn = trees(Graph(claims))
    parts: list[RenderableType] = []
    for tree in drawn:
        if _lines(tree, 0) <= room:
            room -= _lines(tree, 0)
            parts.append(tree)
    if len(parts) < len(drawn):
        parts.append(_line(f"and {len(drawn) - len(parts)} more", "dim"))
    return [Text("who waits for whom", style="bold"), *parts] if parts else []


def _hot(hot: Sequence[Hot], width: int) -> list[RenderableType]:
    if not hot:
        return []
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=max(width - 45, 10))
    for each in hot:
        grid.add_row(
            Text(plain(each.name)),
            f"{each.waiters} waiting",
            f"{each.grants} grants seen in a minute",
        )
    return [Text("\nhot names", style="bold"), grid]


def _line(words: str, style: str = "") -> Text:
    return Text(words, style=style, no_wrap=True, overflow="ellipsis")


def _lines(part: RenderableType, width: int) -> int:
    """Return how many lines a part takes on the screen, including lines that are wrapped."""
    if isinstance(part, Tree):
        return 1 + sum(_lines(child, width) for child in part.children)
    if isinstance(part, Table):
        return part.row_count
    lines = str(part).split("\n")
    if isinstance(part, Text) and part.no_wrap:
        return len(lines)
    return sum(max(-(-len(line) // max(width, 1)), 1) for line in lines)
