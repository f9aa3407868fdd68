"""The table of claims: one row for each holder, with who waits behind it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from lockfast import Holder
from lockfast.cli.claims import Name, age, share
from lockfast.cli.paper import plain

BAR = 10  # characters
LOW = 0.34  # of a ttl: below it, a renewal is overdue


def table(names: Sequence[Name]) -> Table:
    """Make a table of names."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    made.add_column("name", style="bold", overflow="fold")
    made.add_column("holder", overflow="ellipsis")
    made.add_column("purpose", overflow="ellipsis", style="italic")
    made.add_column("host", overflow="ellipsis")
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
        made.add_row(plain(name.name), *[""] * 7, waiting)
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
    seconds = Text(f" {claim.left:.0f} s")
    if not claim.life:
        return seconds
    part = min(claim.left / claim.life, 1.0)
    full = round(part * BAR)
    drawn = Text("━" * full, style="green" if part > LOW else "red")
    return drawn + Text("─" * (BAR - full), style="dim") + seconds
