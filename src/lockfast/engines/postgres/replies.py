"""Parses the replies to all operations, for threads and asyncio.

An operation returns one value, a text of words, which costs both sides less than a row with as many
columns. A reply that our SQL functions never give raises a ValueError or the like. The transport
turns that into an `EngineUnavailable`, and closes the connection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lockfast.engines.postgres.connection import Row
from lockfast.engines.sql import pages, words
from lockfast.engines.sql.words import END, Claimed, Renewed, within
from lockfast.port import Ask, Entry, Page

NOTE = re.compile(rb"[0-9A-Za-z]{1,64} [0-9]{1,16} [0-9a-f]{64}")


def claimed(rows: list[Row], ask: Ask) -> tuple[int, Claimed]:
    """Read the reply to a claim: the server's clock in µs, and the standing, None for a dead id."""
    ((line,),) = rows
    return _claimed(line, ask)


def claimed_all(rows: list[Row], asks: Sequence[Ask]) -> list[tuple[int, Claimed]]:
    """Read the reply to several claims, in the order of the claims."""
    ((text,),) = rows
    lines = (text or b"").split(b"\n")
    if len(lines) != len(asks):
        raise ValueError(f"{len(lines)} answers to {len(asks)} claims")
    return [_claimed(line, ask) for line, ask in zip(lines, asks, strict=True)]


def _claimed(line: bytes | None, ask: Ask) -> tuple[int, Claimed]:
    micros, *rest = _words(line)
    return within(micros, END), words.claimed(rest, ask.shape)


def renewed(rows: list[Row], asks: Sequence[Ask]) -> list[tuple[int, Renewed]]:
    """Read the reply to a renewal, in the order of the claims: the server's clock in µs, and the
    standing. A missing line is an error, because it does not mean that the claim is gone.
    """
    ((text,),) = rows
    found: dict[int, tuple[int, Renewed]] = {}
    lines = (text or b"").split(b"\n")
    for line in lines:
        number, micros, *rest = _words(line)
        place = within(number, len(asks) + 1) - 1
        found[place] = within(micros, END), words.renewed(rest, asks[place].shape)
    if len(found) != len(asks) or len(lines) != len(asks):
        raise ValueError(f"{len(lines)} answers to {len(asks)} renewals")
    return [found[place] for place in range(len(asks))]


def resigned(rows: list[Row], asks: Sequence[Ask]) -> tuple[list[bool], list[str]]:
    """Read the reply to a resignation: whether each claim was there, and notifications to send."""
    ((text,),) = rows
    letters, *notes = (text or b"").split(b"\n")
    found = words.resigned(letters, len(asks))
    if not all(NOTE.fullmatch(note) for note in notes):
        raise ValueError("a note that is none")
    return found, [note.decode("ascii") for note in notes]


def attached(rows: list[Row], asks: Sequence[Ask]) -> list[bool | Exception]:
    """Read whether each claim belongs to its connection."""
    ((letters,),) = rows
    return [*words.resigned(letters or b"", len(asks))]


def records(rows: list[Row]) -> list[bytes]:
    """Read the records of breaks."""
    return [_unhexed(record) for (record,) in rows]


def entries(rows: list[Row]) -> list[Entry]:
    """Read the rows of `inspect`. Raise `EngineRefused` if one of them is of another format."""
    return pages.entries(_plain(rows))


def page(rows: list[Row]) -> Page:
    """Read a page of `inspect`, with the cursor of the next page. Other formats are left out."""
    return pages.page(_plain(rows))


def _plain(rows: list[Row]) -> list[list[bytes | None]]:
    """Read the names and payloads, the first and the last column, from hexadecimal digits."""
    return [[_unhexed(name), *rest, _unhexed(payload)] for name, *rest, payload in rows]


def _unhexed(digits: bytes | None) -> bytes:
    return bytes.fromhex((digits or b"").decode("ascii"))


def _words(line: bytes | None) -> list[bytes]:
    return (line or b"").split(b" ")
