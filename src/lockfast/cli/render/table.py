"""The table of claims: one row for each holder, and the number of waiters for each name.

Columns that do not fit are left out, the least important first. The name is always shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from lockfast import Holder
from lockfast.plain import plain
from lockfast.show.claims import Name, age, share

BAR = 10  # characters
LOW = 0.34  # part of the ttl that is left: below it, a renewal is overdue, and the bar is red
BETWEEN = 3  # characters between two columns
EDGES = 2  # characters beside the first and the last column
SHORT_NAME = 24  # characters that the name gets before other columns; more on a wide screen

Row = Mapping[str, Text]


class Column(NamedTuple):
    """A column of the table."""

    title: str
    rank: int
    """The importance: columns with a high rank are left out first."""
    most: int
    """Its width in characters, at most, until all columns that fit have theirs."""
    style: str = ""
    justify: Literal["left", "right"] = "left"


NAME = Column("name", 0, 0, "bold")
COLUMNS = (
    NAME,
    Column("holder", 5, 16),
    Column("purpose", 7, 20, "italic"),
    Column("host", 1, 16),
    Column("pid", 2, 10, justify="right"),
    Column("age", 3, 8, justify="right"),
    Column("ttl", 6, 24),
    Column("token", 8, 16, justify="right"),
    Column("waiters", 4, 7, justify="right"),
)


def table(names: Sequence[Name], width: int, *, whole: bool) -> Table:
    """Return a table of names. `whole`: wrap a long name instead of cutting it off."""
    rows = [row for name in names for row in _rows(name)]
    widths = _widths(rows, width)
    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        if column.title in widths:
            folded = whole and column is NAME
            made.add_column(
                column.title,
                style=column.style,
                justify=column.justify,
                overflow="fold" if folded else "ellipsis",
                no_wrap=not folded,
                width=widths[column.title],
            )
    for row in rows:
        made.add_row(*[row[title] for title in widths])
    return made


def _widths(rows: Sequence[Row], room: int) -> dict[str, int]:
    """Return the columns that fit, by title, with the width of each."""
    room -= EDGES
    wanted = {
        column.title: max(len(column.title), *(row[column.title].cell_len for row in rows), 0)
        for column in COLUMNS
    }
    least = {column.title: min(wanted[column.title], column.most) for column in COLUMNS}
    least["name"] = min(wanted["name"], max(SHORT_NAME, room // 3), room)
    shown = {"name": least["name"]}
    room -= least["name"]
    for column in sorted(COLUMNS, key=lambda each: each.rank)[1:]:
        if least[column.title] + BETWEEN <= room:
            shown[column.title] = least[column.title]
            room -= least[column.title] + BETWEEN
    for title in ("name", "holder", "host", "purpose"):  # these get the room that is left
        if title in shown:
            more = min(wanted[title] - shown[title], room)
            shown[title] += more
            room -= more
    return {column.title: shown[column.title] for column in COLUMNS if column.title in shown}


def _rows(name: Name) -> list[Row]:
    waiting = Text(str(len(name.waiters)), style="yellow" if name.waiters else "dim")
    first = {"name": Text(plain(name.name)), "waiters": waiting}
    empty = {column.title: Text() for column in COLUMNS}
    if not name.holders:  # the engine is about to grant it to a waiter
        return [{**empty, **first}]
    rows = [{**empty, **_told(claim)} for claim in name.holders]
    return [{**rows[0], **first}, *rows[1:]]


def _told(claim: Holder) -> dict[str, Text]:
    said = claim.who
    return {
        "holder": Text(plain(said.service or said.worker)),
        "purpose": Text(plain(said.purpose)),
        "host": Text(plain(said.host)),
        "pid": Text(str(said.pid)),
        "age": Text(age(claim)),
        "ttl": bar(claim),
        "token": Text(share(claim)),
    }


def bar(claim: Holder) -> Text:
    """Return a bar that shows how much time a claim has left before it must be renewed."""
    seconds = f" {claim.left:.0f} s"
    if not claim.life:
        return Text(seconds)
    part = min(max(claim.left / claim.life, 0.0), 1.0)
    full = round(part * BAR)
    colour = "green" if part > LOW else "red"
    return Text.assemble(("━" * full, colour), ("─" * (BAR - full), "dim"), seconds)
