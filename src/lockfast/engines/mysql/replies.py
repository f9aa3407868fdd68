"""Parses the replies to all operations, for threads and asyncio.

A reply that our procedures never give raises a ValueError or the like. The transport turns that
into an `EngineUnavailable`, and closes the connection.
"""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.core.record import FORMAT, other_format
from lockfast.engines.mysql.greeting import END
from lockfast.engines.mysql.messages import CLIENT, PAGE
from lockfast.engines.mysql.results import Row
from lockfast.errors import EngineRefused, KindMismatch
from lockfast.port import Ask, Blocker, Entry, Kind, Page, Shape, Standing, Wake

CAPACITY = 2**31
KINDS = 2**15  # every kind is below it
LATER = 100  # the kinds of a later format are this number times the format, or more
HOLDER, WAITER = 6, 10  # how many words their standings have
NOTE, FLOOR, ID = 28, 24, 16  # bytes of a note, up to the end of its floor, and of its id
KEPT = 48  # notes that the row of an ear keeps

Claimed = Standing | KindMismatch | EngineRefused | None
Renewed = Standing | EngineRefused | None


def claimed(rows: list[Row], asks: Sequence[Ask]) -> list[tuple[int, Claimed]]:
    """Read the reply to claims, in the order of the claims: the server's clock in µs, and the
    standing, None for a dead id.
    """
    return [
        (micros, _claimed(words, ask.shape))
        for (micros, words), ask in zip(_lines(rows, len(asks)), asks, strict=True)
    ]


def renewed(rows: list[Row], asks: Sequence[Ask]) -> list[tuple[int, Renewed]]:
    """Read the reply to renewals, in the order of the claims. A missing line is an error, because
    it does not mean that the claim is gone.
    """
    return [
        (micros, _renewed(words, ask.shape))
        for (micros, words), ask in zip(_lines(rows, len(asks)), asks, strict=True)
    ]


def _lines(rows: list[Row], count: int) -> list[tuple[int, list[bytes]]]:
    """Read a time and words from each of so many lines."""
    ((text,),) = rows
    lines = (text or b"").split(b"\n")
    if len(lines) != count + 1 or lines.pop():
        raise ValueError(f"{len(lines)} answers to {count} requests")
    split = [line.split(b" ") for line in lines]
    return [(_within(words[0], END), words[1:]) for words in split]


def _claimed(words: Sequence[bytes], shape: Shape) -> Claimed:
    if len(words) != 1:
        return _standing(words, shape)
    found = _kind(words[0], shape.name)
    if found is shape.kind:
        raise ValueError("refused for a kind that is its own")
    if isinstance(found, Kind):
        return KindMismatch(shape.name, shape.kind.words, found.words)
    return found


def _renewed(words: Sequence[bytes], shape: Shape) -> Renewed:
    if len(words) != 1:
        return _standing(words, shape)
    found = _kind(words[0], shape.name)
    if isinstance(found, Kind):
        raise ValueError("a kind in place of a standing")  # noqa: TRY004  # the reply is wrong
    return found


def _kind(digits: bytes | None, name: str) -> Kind | EngineRefused:
    """Read the kind of a claim. It also tells the format, and another format is an error."""
    kind = _within(digits, KINDS)
    stored = _format(kind)
    return Kind(kind) if stored == FORMAT else other_format(name, stored)


def _format(kind: int) -> int:
    """Return the format of claims whose kind has this number."""
    return kind // LATER if kind >= LATER else FORMAT if kind else 0


def resigned(rows: list[Row], asks: Sequence[Ask]) -> list[bool]:
    """Read the reply to resignations: whether each claim was there."""
    ((text,),) = rows
    letters = text or b""
    if len(letters) != len(asks) or letters.strip(b"tf"):
        raise ValueError(f"an answer to {len(asks)} resignations: {letters!r}")
    return [letter == ord("t") for letter in letters]


def heard(rows: list[Row], client: str, seen: int) -> tuple[int, list[Wake] | None]:
    """Read the row of a client's ear: how many notes it has had, and those for the client after the
    first `seen`. None: some of them are not kept any more.

    Another user can make a claim with the id of ours on another name, and have it granted. So only
    notes of our own user's claims count.
    """
    ((count, notes, owner, _),) = rows
    total, kept = _within(count, END), notes or b""
    ours = _within(owner, 2**32).to_bytes(NOTE - FLOOR, "big")
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
    return [_entry(row) for row in rows]


def _entry(row: Row) -> Entry:
    raw, id_, ticket, granted, number, weight, capacity, left, payload = row
    # lockfast writes names in UTF-8. Another name must not keep the rest from being shown.
    name = (raw or b"").decode("utf-8", "backslashreplace")
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
        payload=payload or b"",
    )


def page(rows: list[Row]) -> Page:
    """Read a page of `inspect`, with the cursor of the next page. Other formats are left out."""
    formats = [_format(_within(row[4], KINDS)) for row in rows]
    ours = [row for row, stored in zip(rows, formats, strict=True) if stored == FORMAT]
    others = frozenset(formats) - {FORMAT}
    return Page(entries(ours), _after(rows[-1]) if len(rows) == PAGE else None, others)


def _after(row: Row) -> str:
    return f"{(row[0] or b'').hex()} {0 if _truth(row[3]) else 1} {_within(row[2], END)}"


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
            head.decode("ascii"), _within(head_ticket, END), bytes.fromhex(payload.decode("ascii"))
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
