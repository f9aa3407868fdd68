"""Reads the replies of the Redis engine's scripts. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import hiredis

from lockfast.core import record
from lockfast.engines.redis.transport import END, UNITS
from lockfast.errors import EngineRefused, KindMismatch
from lockfast.port import LONGEST, RECORD, RECORDS, Ask, Blocker, Entry, Kind, Standing

IDENT = re.compile(rb"[0-9A-Za-z]{32}")
FORMAT = re.compile(r"\bLOCKFAST format ([0-9]{1,9})\b")
"""What the scripts say of a value in another format. Redis may write more before and after it."""
TOP = 2**53  # every ticket is below this
LATEST = END * UNITS - 1  # the latest server time: in a claim it has 13 digits
ROUNDING = 0.002  # seconds: we send the ttl, and Redis counts it, in whole milliseconds
BAD = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""The errors that a bad reply causes in the code that reads it."""


class Malformed(Exception):
    """A reply is not one that lockfast's scripts give, so its sender cannot be trusted."""


def standing(reply: Any, ask: Ask) -> Standing:
    """Return the standing in a reply. One number alone means a sole holder with its whole ttl."""
    if type(reply) is bytes:
        try:
            ticket = int(reply)
        except ValueError as error:
            raise Malformed("no ticket") from error
        if not 0 < ticket < TOP:
            raise Malformed("a ticket out of bounds")
        # This makes the same as `Standing(...)` in half the time, on a hot path.
        left = ask.shape.ttl - ROUNDING
        return tuple.__new__(Standing, (ticket, True, left, 0, 0, ticket, None, None))
    try:  # not `with reading()`, which takes longer than all the rest, on a hot path
        digits, granted, left, ahead, behind, floor, recheck, *head = reply
        refused = digits == b"0" and granted == 0  # a claim without `queue`
        return Standing(
            ticket=0 if refused else number(digits, 1),
            granted=granted == 1,
            # Never more than the ttl, since the client trusts the lease for this long. A client of
            # the service may ask with a shorter ttl than before, and strangers share the connection
            # that an error would close.
            left=min(number(left, -TOP, LONGEST * 1000 + 1000) / 1000, ask.shape.ttl) - ROUNDING,
            ahead=number(ahead),
            behind=number(behind),
            floor=number(floor),
            blocker=Blocker(head[0].decode(), number(head[1]), octets(head[2])) if head else None,
            recheck=None if number(recheck, -TOP) < 0 else recheck / 1000,
        )
    except BAD as error:
        raise Malformed(str(error) or type(error).__name__) from error


@contextmanager
def reading() -> Iterator[None]:
    """Raise `Malformed` in place of the errors that a bad reply causes in the `with` block."""
    try:
        yield
    except BAD as error:
        raise Malformed(str(error) or type(error).__name__) from error


def claim_id(raw: Any) -> str:
    """Return the id of a claim, or raise `Malformed`. Other programs may have written anything in
    its place, and a resignation sends an id unchanged, after a fixed length.
    """
    if type(raw) is not bytes or not IDENT.fullmatch(raw):
        raise Malformed("no id")
    return raw.decode()


def octets(raw: Any) -> bytes:
    """Return bytes, or raise `Malformed`. Given a number, `bytes()` would make that many zeros."""
    if type(raw) is not bytes:
        raise Malformed("no bytes")
    return raw


def number(raw: Any, least: float = 0, most: float = TOP - 1) -> int:
    """Return the integer in a number or in digits. Raise `Malformed` if it is out of bounds."""
    if type(raw) is not int and type(raw) is not bytes:
        raise Malformed("no number")
    value = int(raw)
    if not least <= value <= most:
        raise Malformed("a number out of bounds")
    return value


def several(reply: Any, count: int) -> list[Any]:
    """Return what a reply of claims.lua or resigns.lua says of each claim. An error is for all."""
    if isinstance(reply, hiredis.ReplyError):
        return [reply] * count
    if type(reply) is not list or len(reply) != count:
        raise Malformed("not a reply for several claims")
    return reply


def renewed(reply: Any, count: int) -> tuple[list[Any], int]:
    """Return the replies for each claim in a reply of renew.lua, and the server's time in ms."""
    if type(reply) is not list or len(reply) != count + 1:
        raise Malformed("not a reply to a renewal")
    with reading():
        return reply[:-1], number(reply[-1], 1, LATEST)


def resigned(reply: Any) -> bool:
    """Return whether resign.lua has removed the claim."""
    if type(reply) is not list or len(reply) != 1 or reply[0] not in (0, 1):
        raise Malformed("not a reply to a release")
    return bool(reply[0])


def refusal(reply: Any, ask: Ask) -> int | None:
    """Return the server's time in ms if the reply says that the id is dead, None for a standing.
    Raise `KindMismatch` if the claims there are of another kind.
    """
    if type(reply) is list and reply and reply[0] in (b"dead", b"kind"):
        with reading():
            what, told = reply
            if what == b"dead":
                return number(told, 1, LATEST)
            ruling = Kind(number(told))
        raise KindMismatch(ask.shape.name, ask.shape.kind.words, ruling.words)
    return None


def other_format(reply: Any, name: str) -> EngineRefused | None:
    """Return the error for a lock in another format, or None if the reply says something else."""
    found = format_in(reply)
    return None if found is None else record.other_format(name, found)


def format_in(reply: Any) -> int | None:
    """Return the format that an error reply names, or None if the reply says something else."""
    found = FORMAT.search(str(reply)) if isinstance(reply, hiredis.ReplyError) else None
    return None if found is None else int(found[1])


def entries(name: str, reply: Any) -> list[Entry]:
    """Return the entries in a reply of inspect.lua. Rows that lockfast did not write are left out,
    so that another program's value does not hide the others.
    """
    with reading():
        rows = list(reply)
    found = []
    for row in rows:
        with suppress(Malformed), reading():
            ident, ticket, granted, left, stored = row
            claim = record.read(octets(stored))
            if claim is not None:
                found.append(
                    Entry(
                        name=name,
                        id=claim_id(ident),
                        ticket=number(ticket),
                        granted=granted == 1,
                        kind=claim.kind,
                        weight=claim.weight,
                        capacity=claim.capacity,
                        left=number(left, -TOP, LONGEST * 1000 + 1000) / 1000,
                        payload=claim.payload,
                    )
                )
    return found


def records(reply: Any) -> list[bytes]:
    """Return the records in a reply of record.lua, the newest first."""
    if reply is not None and type(reply) is not bytes:
        raise Malformed("not the records of breaks")
    return reply[: RECORDS * (RECORD + 1)].split(b"\n", RECORDS)[:RECORDS] if reply else []
