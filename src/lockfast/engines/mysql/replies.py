"""Parses the replies to all operations, for threads and asyncio.

A reply that our procedures never give raises a ValueError or the like. The transport turns that
into an `EngineUnavailable`, and closes the connection.
"""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.engines.mysql.messages import CLIENT
from lockfast.engines.mysql.results import Row
from lockfast.engines.sql import pages, words
from lockfast.engines.sql.words import END, Claimed, Renewed, within
from lockfast.port import Ask, Entry, Page, Wake

NOTE, FLOOR, ID = 28, 24, 16  # bytes of a note, up to the end of its floor, and of its id
KEPT = 48  # notes that the row of an ear keeps


def claimed(rows: list[Row], asks: Sequence[Ask]) -> list[tuple[int, Claimed]]:
    """Read the reply to claims, in the order of the claims: the server's clock in µs, and the
    standing, None for a dead id.
    """
    return [
        (micros, words.claimed(rest, ask.shape))
        for (micros, rest), ask in zip(_lines(rows, len(asks)), asks, strict=True)
    ]


def renewed(rows: list[Row], asks: Sequence[Ask]) -> list[tuple[int, Renewed]]:
    """Read the reply to renewals, in the order of the claims. A missing line is an error, because
    it does not mean that the claim is gone.
    """
    return [
        (micros, words.renewed(rest, ask.shape))
        for (micros, rest), ask in zip(_lines(rows, len(asks)), asks, strict=True)
    ]


def _lines(rows: list[Row], count: int) -> list[tuple[int, list[bytes]]]:
    """Read a time and words from each of so many lines."""
    ((text,),) = rows
    lines = (text or b"").split(b"\n")
    if len(lines) != count + 1 or lines.pop():
        raise ValueError(f"{len(lines)} answers to {count} requests")
    split = [line.split(b" ") for line in lines]
    return [(within(each[0], END), each[1:]) for each in split]


def resigned(rows: list[Row], asks: Sequence[Ask]) -> list[bool]:
    """Read the reply to resignations: whether each claim was there."""
    ((text,),) = rows
    return words.resigned(text or b"", len(asks))


def heard(rows: list[Row], client: str, seen: int) -> tuple[int, list[Wake] | None]:
    """Read the row of a client's ear: how many notes it has had, and those for the client after the
    first `seen`. None: some of them are not kept any more.

    Another user can make a claim with the id of ours on another name, and have it granted. So only
    notes of our own user's claims count.
    """
    ((count, notes, owner, _),) = rows
    total, kept = within(count, END), notes or b""
    ours = within(owner, 2**32).to_bytes(NOTE - FLOOR, "big")
    if len(kept) % NOTE:
        raise ValueError("a part of a note")
    new = max(total - seen, 0)
    every = [kept[at : at + NOTE] for at in range(0, min(new, KEPT) * NOTE, NOTE)]
    mine = bytes.fromhex(client)
    wakes = [
        Wake(note[:ID].hex(), granted=True, floor=int.from_bytes(note[ID:FLOOR], "big"))
        for note in every
        if note[: CLIENT // 2] == mine and note[FLOOR:] == ours
    ]
    if any(wake.floor >= END for wake in wakes):
        raise ValueError("a floor that is no ticket")
    return total, None if new > KEPT else wakes


def woken(rows: list[Row]) -> str:
    """Read who was not allowed to wake a client. Empty: the client was woken."""
    ((who,),) = rows
    return (who or b"").decode("utf-8", "replace")


def records(rows: list[Row]) -> list[bytes]:
    """Read the records of breaks."""
    return [record or b"" for (record,) in rows]


def entries(rows: list[Row]) -> list[Entry]:
    """Read the rows of `inspect`. Raise `EngineRefused` if one of them is of another format."""
    return pages.entries(rows)


def page(rows: list[Row]) -> Page:
    """Read a page of `inspect`, with the cursor of the next page. Other formats are left out."""
    return pages.page(rows)
