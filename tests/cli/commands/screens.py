"""Screens as text: `ls` and `watch` at the sizes of common terminals, with few locks and many.

`python -m tests.cli.commands.screens` writes them again, into `screens/`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from rich.console import Console

from lockfast.claims.payload import Who
from lockfast.cli.render.hot_names import Heat
from lockfast.cli.render.screen import View, screen
from lockfast.cli.render.table import table
from lockfast.port import Entry, Kind
from lockfast.primitives.lock import Holder
from lockfast.show.claims import by_name

FOLDER = Path(__file__).parent / "screens"
SIZES = ((80, 24), (90, 24), (120, 40))
NOW = 1_800_000_000.0
TOKEN = 1_763_160_000_000_000
HOSTILE = (
    "invoice:[/42]",
    "\x1b[2J\x1b[Hgone\r\nlockfast: all is well\x07",
    "[link=https://evil.example]click[/link]",
    "a-name-of-512-bytes:" + "x" * 492,
    "\N{FULLWIDTH LATIN SMALL LETTER A}" * 60,
    "\u202etxt.exe",
)


def claim(name: str, number: int, *, granted: bool = True, said: str = "") -> Holder:
    """Make a claim as an engine shows it; `said`: how it describes itself, in all fields."""
    payload = {
        "host": said or f"web-{number % 7}.eu-west.internal",
        "pid": 10_000 + number,
        "worker": said or "MainThread",
        "service": said or "billing-worker",
        "purpose": said or "nightly billing run",
        "since": NOW - 3.0 * number - 5,
        "ttl": 30.0,
        "subject": said,
        "address": said,
    }
    assert list(payload) == list(Who._fields)  # a new field has to look harmless too
    raw = json.dumps(payload).encode()
    left = 30.0 - number % 25
    id_, ticket = f"{number:032x}", TOKEN + number
    return Holder(Entry(name, id_, ticket, granted, Kind.LOCK, 1, 1, left, raw))


def one() -> list[Holder]:
    """One lock, held."""
    return [claim("invoice:42", 1)]


def many() -> list[Holder]:
    """Five hundred locks: one with a long line of waiters, and some with a short one."""
    claims = []
    for number in range(500):
        name = f"order:{number:05}:customer-{number * 7919 % 10_000:04}"
        claims.append(claim(name, number))
        waiters = 60 if number == 250 else 2 if number % 50 == 0 else 0
        claims += [claim(name, 1000 + 100 * number + n, granted=False) for n in range(waiters)]
    return claims


def hostile() -> list[Holder]:
    """Names and descriptions that are commands, markup, or endless."""
    claims = []
    for number, name in enumerate(sorted(HOSTILE)):
        claims.append(claim(name, number, said=name))
        claims.append(claim(name, 100 + number, granted=False, said=name))
    return claims


CLAIMS = {"one": one, "many": many, "hostile": hostile}


def drawn(command: str, claims: Sequence[Holder], columns: int, lines: int) -> str:
    """Draw a screen as a terminal without colours shows it."""
    paper = Console(file=io.StringIO(), width=columns, height=lines, markup=False, emoji=False)
    with mock.patch("time.time", return_value=NOW):
        if command == "ls":
            paper.print(table(by_name(claims), columns, whole=True))
        else:
            view = View(claims, Heat().look(claims, 0.0), [])
            paper.print(screen(" redis://localhost:6379  ", view, "", paper.size))
    assert isinstance(paper.file, io.StringIO)
    return "".join(f"{line.rstrip()}\n" for line in paper.file.getvalue().splitlines())


def names() -> list[tuple[str, str, int, int]]:
    """List all screens that are kept; the list of many is too long for one."""
    return [
        (command, which, columns, lines)
        for command in ("ls", "watch")
        for which in CLAIMS
        for columns, lines in SIZES
        if (command, which) != ("ls", "many")
    ]


def path(command: str, which: str, columns: int, lines: int) -> Path:
    """Name the file of a screen."""
    return FOLDER / f"{command}-{which}-{columns}x{lines}.txt"


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for command, which, columns, lines in names():
        said = drawn(command, CLAIMS[which](), columns, lines)
        path(command, which, columns, lines).write_text(said, "utf-8")


if __name__ == "__main__":
    main()
