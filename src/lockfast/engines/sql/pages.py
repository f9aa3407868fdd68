"""Pages of `inspect`: the arguments of the function that shows claims, and the rows it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lockfast.core.record import FORMAT
from lockfast.engines.sql.words import END, KINDS, format_of, kind_of, truth, within
from lockfast.errors import EngineRefused
from lockfast.port import Entry, Page

SHOWN = 1000  # claims of one lock that `inspect` shows
SIZE = 500  # claims of a page
CAPACITY = 2**31
Literal = Callable[[bytes], str]
"""Writes bytes into a statement."""


def of_one(name: str, literal: Literal) -> str:
    """Return the arguments for the claims on one name."""
    return f"{literal(name.encode())}, NULL, NULL, NULL, {SHOWN}"


def of_prefix(prefix: str, cursor: str | None, literal: Literal) -> str:
    """Return the arguments for the next claims on names with that prefix, in the order of names
    and queues.
    """
    raw = prefix.encode()
    # No byte of UTF-8 is 0xff, so this sorts behind all names that have the prefix.
    below = literal(raw + bytes([255]))
    if cursor is None:
        return f"{literal(raw)}, {below}, NULL, NULL, {SIZE}"
    name, waits, ticket = cursor.split(" ")
    start = bytes.fromhex(name)
    if not start.startswith(raw):  # from there, the next cursor would tell other names
        raise ValueError("a cursor outside the prefix")
    behind = f"{waits == 'waits'}, {int(ticket):d}"
    return f"{literal(start)}, {below}, {behind}, {SIZE}"


def entries(rows: Sequence[Sequence[bytes | None]]) -> list[Entry]:
    """Read rows with names and payloads as bytes. Raise `EngineRefused` if one of them is of
    another format.
    """
    return [_entry(row) for row in rows]


def _entry(row: Sequence[bytes | None]) -> Entry:
    raw, id_, ticket, granted, number, weight, capacity, left, payload = row
    # lockfast writes names in UTF-8. Another name must not keep the rest from being shown.
    name = (raw or b"").decode("utf-8", "backslashreplace")
    kind = kind_of(number, name)
    if isinstance(kind, EngineRefused):
        raise kind
    return Entry(
        name=name,
        id=(id_ or b"").decode("ascii"),
        ticket=within(ticket, END),
        granted=truth(granted),
        kind=kind,
        weight=within(weight, CAPACITY),
        capacity=within(capacity, CAPACITY),
        left=within(left, END) / 1e6,
        payload=payload or b"",
    )


def page(rows: Sequence[Sequence[bytes | None]]) -> Page:
    """Read a page, with the cursor of the next page. Other formats are left out."""
    formats = [format_of(within(row[4], KINDS)) for row in rows]
    ours = [row for row, stored in zip(rows, formats, strict=True) if stored == FORMAT]
    others = frozenset(formats) - {FORMAT}
    return Page(entries(ours), _after(rows[-1]) if len(rows) == SIZE else None, others)


def _after(row: Sequence[bytes | None]) -> str:
    waits = "in" if truth(row[3]) else "waits"
    return f"{(row[0] or b'').hex()} {waits} {within(row[2], END)}"
