"""Parses the words in which SQL functions and procedures answer: numbers, kinds and standings.

A reply that ours never give raises a ValueError or the like. The transport turns that into an
`EngineUnavailable`, and closes the connection.
"""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.core.record import FORMAT, other_format
from lockfast.errors import EngineRefused, KindMismatch
from lockfast.port import LONGEST, Blocker, Kind, Shape, Standing

END = 2**53  # every ticket, and every server time in µs, is below it
LONGEST_LEFT = (
    int(LONGEST * 1e6) + 1001
)  # µs, and one ms, because times are rounded in several places
KINDS = 2**15  # every kind is below it
LATER = 100  # the kinds of a later format are this number times the format, or more
HOLDER, WAITER = 6, 10  # how many words their standings have

Claimed = Standing | KindMismatch | EngineRefused | None
Renewed = Standing | EngineRefused | None


def claimed(words: Sequence[bytes], shape: Shape) -> Claimed:
    """Read the answer to a claim: its standing, None for a dead id, or the kind in its way."""
    if len(words) != 1:
        return standing(words, shape)
    found = kind_of(words[0], shape.name)
    if found is shape.kind:
        raise ValueError("refused for a kind that is its own")
    if isinstance(found, Kind):
        return KindMismatch(shape.name, shape.kind.words, found.words)
    return found


def renewed(words: Sequence[bytes], shape: Shape) -> Renewed:
    """Read the answer to a renewal: the claim's standing, or None if it is gone."""
    if len(words) != 1:
        return standing(words, shape)
    found = kind_of(words[0], shape.name)
    if isinstance(found, Kind):
        raise ValueError("a kind in place of a standing")  # noqa: TRY004  # the reply is wrong
    return found


def resigned(letters: bytes, count: int) -> list[bool]:
    """Read whether each of so many claims was there, a letter for each."""
    if len(letters) != count or letters.strip(b"tf"):
        raise ValueError(f"an answer to {count} resignations: {letters!r}")
    return [letter == ord("t") for letter in letters]


def kind_of(digits: bytes | None, name: str) -> Kind | EngineRefused:
    """Read the kind of a claim. It also tells the format, and another format is an error."""
    number = within(digits, KINDS)
    stored = format_of(number)
    return Kind(number) if stored == FORMAT else other_format(name, stored)


def format_of(kind: int) -> int:
    """Return the format of claims whose kind has this number."""
    return kind // LATER if kind >= LATER else FORMAT if kind else 0


def standing(words: Sequence[bytes], shape: Shape) -> Standing | None:
    """Read a standing: six words of a holder, ten of a waiter. None if there are no words."""
    if not words:
        return None
    ticket, granted, left, ahead, behind, floor = words[:HOLDER]
    lets_in = truth(granted)
    if len(words) != (HOLDER if lets_in else WAITER):
        raise ValueError(f"a standing of {len(words)} words")
    recheck, blocker = None, None
    if not lets_in:
        following, head, head_ticket, payload = words[HOLDER:]
        recheck = None if following == b"-" else signed(following) / 1e6
        blocker = Blocker(
            head.decode("ascii"), within(head_ticket, END), bytes.fromhex(payload.decode("ascii"))
        )
    found = Standing(
        within(ticket, END),
        lets_in,
        # Never more than the ttl, since the client trusts the lease for this long. A client of the
        # service may ask with a shorter ttl than before, and strangers share the call: no error.
        min(within(left, LONGEST_LEFT) / 1e6, shape.ttl),
        within(ahead, END),
        within(behind, END),
        within(floor, END),
        blocker,
        recheck,
    )
    if lets_in and found.ticket == 0:
        raise ValueError("granted, without a ticket")
    return found


def truth(letter: bytes | None) -> bool:
    """Read a truth value."""
    if letter not in (b"t", b"f"):
        raise ValueError(f"neither true nor false: {letter!r}")
    return letter == b"t"


def within(digits: bytes | None, end: int) -> int:
    """Read a number from 0 to below `end`. `int` alone accepts texts that no server sends."""
    if digits is None or not digits.isdigit() or not 0 <= (number := int(digits)) < end:
        raise ValueError(f"not a number below {end}: {digits!r}")
    return number


def signed(digits: bytes) -> int:
    """Read a number that may be negative."""
    return -within(digits[1:], END) if digits[:1] == b"-" else within(digits, END)
