"""Parses the replies to all operations, for threads and asyncio.

A reply that our procedures never give raises a ValueError or the like. The transport turns that
into an `EngineUnavailable`, and closes the connection.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from lockfast.engines.mysql.messages import BUCKETS, CLIENT
from lockfast.engines.mysql.results import Row
from lockfast.engines.sql import pages, words
from lockfast.engines.sql.words import END, Claimed, Renewed, within
from lockfast.port import Ask, Entry, Page, Standing, Wake

NOTE, FLOOR, ID = 28, 24, 16  # bytes of a note, up to the end of its floor, and of its id
TICKET = 16  # digits of a ticket that was granted at once
KEPT = 48  # notes that the row of an ear keeps


def claimed(rows: list[Row], asks: Sequence[Ask]) -> list[tuple[int, Claimed]]:
    """Read the reply to claims, in the order of the claims: the server's clock in µs, and the
    standing, None for a dead id.
    """
    ((text,),) = rows
    first, newline, rest = (text or b"").partition(b"\n")
    time, _, tickets = first.partition(b" ")
    if len(tickets) != TICKET * len(asks) or not newline:
        raise ValueError(f"{len(tickets)} digits for {len(asks)} requests")
    micros = within(time, END)
    lines = iter(_lines(rest, tickets.count(b"-")))
    found: list[tuple[int, Claimed]] = []
    for ask, at in zip(asks, range(0, len(tickets), TICKET), strict=True):
        digits = tickets[at : at + TICKET]
        if digits.endswith(b"-"):
            then, answer = next(lines)
            found.append((then, words.claimed(answer, ask.shape)))
        else:
            found.append((micros, _alone(within(digits, END), ask)))
    return found


def _alone(ticket: int, ask: Ask) -> Standing:
    """Return the standing of a claim that was granted at once, and has nobody behind it."""
    if not ticket:
        raise ValueError("granted, without a ticket")
    return Standing(ticket, granted=True, left=ask.shape.ttl, floor=ticket)


def renewed(rows: list[Row], asks: Sequence[Ask]) -> list[tuple[int, Renewed]]:
    """Read the reply to renewals, in the order of the claims. A missing line is an error, because
    it does not mean that the claim is gone.
    """
    ((text,),) = rows
    lines = _lines(text or b"", len(asks))
    return [
        (micros, words.renewed(rest, ask.shape))
        for (micros, rest), ask in zip(lines, asks, strict=True)
    ]


def _lines(text: bytes, count: int) -> list[tuple[int, list[bytes]]]:
    """Read a time and words from each of so many lines."""
    lines = text.split(b"\n")
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
    """
    ((count, notes, owner, _),) = rows
    total, wakes, complete = _noted(count, notes, owner, (client,), seen)
    return total, wakes if complete else None


def overheard(
    rows: list[Row], clients: Container[str], seen: Mapping[int, int]
) -> list[tuple[int, int, list[Wake], bool]]:
    """Read the rows of many clients' ears: for each its slot, how many notes it has had, those for
    the clients after the first `seen` as far as they are kept, and whether all of them are.
    """
    found = []
    for number, count, notes, owner in rows:
        slot = within(number, BUCKETS)
        found.append((slot, *_noted(count, notes, owner, clients, seen[slot])))
    return found


def _noted(
    count: bytes | None,
    notes: bytes | None,
    owner: bytes | None,
    clients: Container[str],
    seen: int,
) -> tuple[int, list[Wake], bool]:
    """Read a row of `ear`, with the notes for these clients.

    Another user can make a claim with the id of ours on another name, and have it granted. So only
    notes of our own user's claims count.
    """
    total, kept = within(count, END), notes or b""
    ours = within(owner, 2**32).to_bytes(NOTE - FLOOR, "big")
    if len(kept) % NOTE:
        raise ValueError("a part of a note")
    new = max(total - max(seen, 0), 0)
    every = [kept[at : at + NOTE] for at in range(0, min(new, KEPT) * NOTE, NOTE)]
    wakes = [
        Wake(note[:ID].hex(), granted=True, floor=int.from_bytes(note[ID:FLOOR], "big"))
        for note in every
        if note[FLOOR:] == ours and note[: CLIENT // 2].hex() in clients
    ]
    if any(wake.floor >= END for wake in wakes):
        raise ValueError("a floor that is no ticket")
    return total, wakes, new <= KEPT


def held(rows: list[Row], count: int) -> list[bool]:
    """Read whether a connection has the lock of each of so many clients, a digit for each."""
    ((digits,),) = rows
    if digits is None or len(digits) != count or digits.strip(b"01"):
        raise ValueError(f"an answer to {count} locks: {digits!r}")
    return [digit == ord("1") for digit in digits]


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
