"""The table of claims: one row for each holder, with who waits behind it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from lockfast import Holder
from lockfast.cli.claims import Name, age, share
from lockfast.plain import plain

BAR = 10  # characters
LOW = 0.34  # of a ttl: below it, a renewal is overdue


def table(names: Sequence[Name], *, whole: bool) -> Table:
    """Make a table of names. `whole`: a long name takes more lines, and is not cut off."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    made.add_column(
        "name", style="bold", overflow="fold" if whole else "ellipsis", no_wrap=not whole
    )
    for title, style in (("holder", ""), ("purpose", "italic"), ("host", "")):
        made.add_column(title, style=style, overflow="ellipsis", no_wrap=True)
    for title in ("pid", "age"):
        made.add_column(title, justify="right", no_wrap=True)
    made.add_column("ttl", no_wrap=True)
    made.add_column("token", justify="right", no_wrap=True)
    made.add_column("waiters", justify="right", no_wrap=True)
    for name in names:
        _add(made, name)
    return made


def _add(made: Table, name: Name) -> None:
    waiting = Text(str(len(name.waiters)), style="yellow" if name.waiters else "dim")
    if not name.holders:  # about to be granted
        made.add_row(Text(plain(name.name)), *[""] * 7, waiting)
    for number, claim in enumerate(name.holders):
        said = claim.who
        made.add_row(
            Text(plain(name.name) if number == 0 else ""),
            Text(plain(said.service or said.worker)),
            Text(plain(said.purpose)),
            Text(plain(said.host)),
            str(said.pid),
            age(claim),
            bar(claim),
            share(claim),
            waiting if number == 0 else "",
        )


def bar(claim: Holder) -> Text:
    """Draw how much of its time a claim has left before it must be renewed."""
    seconds = f" {claim.left:.0f} s"
    if not claim.life:
        return Text(seconds)
    part = min(max(claim.left / claim.life, 0.0), 1.0)
    full = round(part * BAR)
    colour = "green" if part > LOW else "red"
    return Text.assemble(("━" * full, colour), ("─" * (BAR - full), "dim"), seconds)
