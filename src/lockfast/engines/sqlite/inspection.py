"""Reads what `inspect` shows: the claims on one name, or a page of those with a prefix."""

from __future__ import annotations

from typing import Any

from lockfast.core.record import FORMAT, other_format
from lockfast.engines.sqlite.clock import UNITS
from lockfast.engines.sqlite.standing import checked
from lockfast.engines.sqlite.transaction import Transaction
from lockfast.port import Entry, Kind, Page, fits_kind

DIGITS = 16  # of a ticket, at most
SHOWN = 1000  # claims of one lock that `inspect` shows
PAGE = 500
COLUMNS = """SELECT claim.name, id, ticket, waits, weight, capacity,
 min(expires - ?1, CASE WHEN waits THEN wait_ttl ELSE ttl END),
 CASE WHEN typeof(payload) = 'blob' AND length(payload) <= 65536 THEN payload ELSE x'' END,
 format, kind
 FROM claim JOIN queue ON queue.name = claim.name WHERE +expires > ?1"""
# The plus sign keeps SQLite from the index by expiry. After that, it would have to sort all claims.
ONE = f"{COLUMNS} AND claim.name = ?2 ORDER BY waits, ticket LIMIT {SHOWN}"
SOME = f"""{COLUMNS} AND claim.name < ?2 AND (claim.name, waits, ticket) > (?3, ?4, ?5)
 ORDER BY claim.name, waits, ticket LIMIT {PAGE}"""
Row = tuple[Any, ...]
Place = tuple[bytes, int, int]
"""A claim in the order of a page: its name, whether it waits, and its ticket."""


def one(transaction: Transaction, name: str) -> Page:
    """Return the claims on one name. Raise `EngineRefused` if they are of another format."""
    rows = transaction.all(ONE, transaction.now, name.encode())
    for row in rows:
        if row[8] != FORMAT:
            raise other_format(name, row[8])
    return Page([_entry(row) for row in rows], None)


def behind(prefix: str, cursor: str | None) -> Place:
    """Return behind which claim the next page begins. Raise `ValueError` about other cursors."""
    raw = prefix.encode()
    if cursor is None:
        return raw, -1, -1
    name, waits, ticket = cursor.split(" ")
    start = bytes.fromhex(name)
    # From a place outside of the prefix, the next cursor would tell other names.
    if not start.startswith(raw) or len(ticket) > DIGITS:
        raise ValueError("a cursor outside the prefix")
    return start, int(waits), int(ticket)


def page(transaction: Transaction, prefix: str, place: Place) -> Page:
    """Return the next claims on names with a prefix, in the order of names and queues.

    The claims of another format are left out.
    """
    # No byte of UTF-8 is 0xff, so this sorts behind all names that have the prefix.
    rows = transaction.all(SOME, transaction.now, prefix.encode() + b"\xff", *place)
    entries = [_entry(row) for row in rows if row[8] == FORMAT]
    others = frozenset(row[8] for row in rows) - {FORMAT}
    return Page(entries, _after(rows[-1]) if len(rows) == PAGE else None, others)


def _after(row: Row) -> str:
    name, _, ticket, waits, *_ = row
    return f"{name.hex()} {waits:d} {ticket:d}"


def _entry(row: Row) -> Entry:
    name, id_, ticket, waits, weight, capacity, left, payload, _, number = row
    kind = Kind(number)
    if not fits_kind(kind, capacity, weight) or not isinstance(id_, str):
        raise ValueError("a claim that lockfast did not write")
    return Entry(
        # lockfast writes names in UTF-8. Another name must not keep the rest from being shown.
        name=name.decode("utf-8", "backslashreplace"),
        id=id_,
        ticket=checked(ticket),
        granted=not waits,
        kind=kind,
        weight=weight,
        capacity=capacity,
        left=left / UNITS,
        payload=bytes(payload),
    )
