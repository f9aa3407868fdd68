"""Parses the replies to all operations, for threads and asyncio.

An operation returns one value, a text of words, which costs both sides less than a row with as many
columns. A reply that our SQL functions never give raises a ValueError or the like. The transport
turns that into an `EngineUnavailable`, and closes the connection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lockfast.core.record import FORMAT, other_format
from lockfast.engines.postgres.connection import END, Row
from lockfast.engines.postgres.messages import PAGE
from lockfast.errors import EngineRefused, KindMismatch
from lockfast.port import Ask, Blocker, Entry, Kind, Page, Shape, Standing

CAPACITY = 2**31
KINDS = 2**15  # every kind is below it
LATER = 100  # the kinds of a later format are this number times the format, or more
HOLDER, WAITER = 6, 10  # how many words their standings have
NOTE = re.compile(rb"[0-9A-Za-z]{1,64} [0-9]{1,16} [0-9a-f]{64}")


Claimed = Standing | KindMismatch | EngineRefused | None
Renewed = Standing | EngineRefused | None


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
    words, shape = _words(line), ask.shape
    micros = _within(words[0], END)
    if len(words) == 2:  # noqa: PLR2004  # the clock, and the kind of the queue
        found = _kind(words[1], shape.name)
        if found is shape.kind:
            raise ValueError("refused for a kind that is its own")
        if isinstance(found, Kind):
            return micros, KindMismatch(shape.name, shape.kind.words, found.words)
        return micros, found
    return micros, _standing(words[1:], shape)


def _kind(digits: bytes | None, name: str) -> Kind | EngineRefused:
    """Read the kind of a claim. It also tells the format, and another format is an error."""
    number = _within(digits, KINDS)
    stored = _format(number)
    return Kind(number) if stored == FORMAT else other_format(name, stored)


def _format(kind: int) -> int:
    """Return the format of claims whose kind has this number."""
    return kind // LATER if kind >= LATER else FORMAT if kind else 0


def renewed(rows: list[Row], asks: Sequence[Ask]) -> list[tuple[int, Renewed]]:
    """Read the reply to a renewal, in the order of the claims: the server's clock in µs, and the
    standing. A missing line is an error, because it does not mean that the claim is gone.
    """
    ((text,),) = rows
    found: dict[int, tuple[int, Renewed]] = {}
    lines = (text or b"").split(b"\n")
    for line in lines:
        words = _words(line)
        place = _within(words[0], len(asks) + 1) - 1
        found[place] = _within(words[1], END), _renewed(words[2:], asks[place].shape)
    if len(found) != len(asks) or len(lines) != len(asks):
        raise ValueError(f"{len(lines)} answers to {len(asks)} renewals")
    return [found[place] for place in range(len(asks))]


def _renewed(words: Sequence[bytes], shape: Shape) -> Renewed:
    if len(words) != 1:
        return _standing(words, shape)
    found = _kind(words[0], shape.name)
    if isinstance(found, Kind):
        raise ValueError("a kind in place of a standing")  # noqa: TRY004  # the reply is wrong
    return found


def resigned(rows: list[Row], asks: Sequence[Ask]) -> tuple[list[bool], list[str]]:
    """Read the reply to a resignation: whether each claim was there, and notifications to send."""
    ((text,),) = rows
    letters, *notes = (text or b"").split(b"\n")
    if len(letters) != len(asks) or letters.strip(b"tf"):
        raise ValueError(f"an answer to {len(asks)} resignations: {letters!r}")
    if not all(NOTE.fullmatch(note) for note in notes):
        raise ValueError("a note that is none")
    return [letter == ord("t") for letter in letters], [note.decode("ascii") for note in notes]


def records(rows: list[Row]) -> list[bytes]:
    """Read the records of breaks."""
    return [bytes.fromhex((record or b"").decode()) for (record,) in rows]


def entries(rows: list[Row]) -> list[Entry]:
    """Read the rows of `inspect`. Raise `EngineRefused` if one of them is of another format."""
    return [_entry(row) for row in rows]


def _entry(row: Row) -> Entry:
    raw, id_, ticket, granted, number, weight, capacity, left, payload = row
    # lockfast writes names in UTF-8. Another name must not keep the rest from being shown.
    name = bytes.fromhex((raw or b"").decode()).decode("utf-8", "backslashreplace")
    kind = _kind(number, name)
    if isinstance(kind, EngineRefused):
        raise kind
    return Entry(
        name=name,
        id=(id_ or b"").decode("ascii"),
        ticket=_within(ticket, END),
        granted=_truth(granted),
        kind=kind,
        weight=_within(weight, CAPACITY),
        capacity=_within(capacity, CAPACITY),
        left=_within(left, END) / 1e6,
        payload=bytes.fromhex((payload or b"").decode()),
    )


def page(rows: list[Row]) -> Page:
    """Read a page of `inspect`, with the cursor of the next page. Other formats are left out."""
    formats = [_format(_within(row[4], KINDS)) for row in rows]
    ours = [row for row, stored in zip(rows, formats, strict=True) if stored == FORMAT]
    others = frozenset(formats) - {FORMAT}
    return Page(entries(ours), _after(rows[-1]) if len(rows) == PAGE else None, others)


def _after(row: Row) -> str:
    return f"{(row[0] or b'').decode()} {'in' if row[3] == b't' else 'waits'} {int(row[2] or 0)}"


def _standing(words: Sequence[bytes], shape: Shape) -> Standing | None:
    """Read a standing: six words of a holder, ten of a waiter. None if there are no words."""
    if not words:
        return None
    ticket, granted, left, ahead, behind, floor = words[:HOLDER]
    lets_in = _truth(granted)
    if len(words) != (HOLDER if lets_in else WAITER):
        raise ValueError(f"a standing of {len(words)} words")
    recheck, blocker = None, None
    if not lets_in:
        following, head, head_ticket, payload = words[HOLDER:]
        recheck = None if following == b"-" else _signed(following) / 1e6
        blocker = Blocker(
            head.decode("ascii"), _within(head_ticket, END), bytes.fromhex(payload.decode())
        )
    # One millisecond more, because times are rounded in several places.
    longest = round(shape.ttl * 1e6) + 1000
    standing = Standing(
        _within(ticket, END),
        lets_in,
        _within(left, longest + 1) / 1e6,
        _within(ahead, END),
        _within(behind, END),
        _within(floor, END),
        blocker,
        recheck,
    )
    if lets_in and standing.ticket == 0:
        raise ValueError("granted, without a ticket")
    return standing


def _words(line: bytes | None) -> list[bytes]:
    return (line or b"").split(b" ")


def _truth(letter: bytes | None) -> bool:
    if letter not in (b"t", b"f"):
        raise ValueError(f"neither true nor false: {letter!r}")
    return letter == b"t"


def _within(digits: bytes | None, end: int) -> int:
    """Read a number from 0 to below `end`. `int` alone accepts texts that no server sends."""
    if digits is None or not digits.isdigit() or not 0 <= (number := int(digits)) < end:
        raise ValueError(f"not a number below {end}: {digits!r}")
    return number


def _signed(digits: bytes) -> int:
    return -_within(digits[1:], END) if digits[:1] == b"-" else _within(digits, END)
