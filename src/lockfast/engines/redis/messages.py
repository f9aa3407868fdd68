"""Packs calls of the Redis engine's scripts, and reads their replies. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, NamedTuple

from lockfast.engines.redis.keys import Keys, bulk, keys
from lockfast.engines.redis.scripts import CLAIM, INSPECT, RECORD, RENEW, RESIGN
from lockfast.engines.redis.transport import END, UNITS
from lockfast.errors import KindMismatch
from lockfast.port import (
    LONGEST_WAIT,
    RECORDS,
    REMEMBERED,
    TOMB_MARGIN,
    Ask,
    Blocker,
    Entry,
    Standing,
)
from lockfast.port import RECORD as RECORD_SIZE

IDENT = re.compile(rb"[0-9A-Za-z]{32}")
TOP = 2**53  # every ticket is below this
LATEST = END * UNITS - 1  # the latest server time: in a claim it has 13 digits
ROUNDING = 0.002  # seconds: we send the ttl, and Redis counts it, in whole milliseconds
SLACK = 1000  # ms by which a reply may exceed the ttl before it counts as malformed
MARGIN = int(TOMB_MARGIN * 1000)  # ms
ID = 32  # bytes of an id
NO_STONE = b"$1\r\n0\r\n"
FLAGS = (b"\r\n$1\r\n0\r\n", b"\r\n$1\r\n1\r\n")


class ClaimForm:
    """The parts of a claim's packet that are the same for all claims of one shape."""

    __slots__ = ("bucket", "middle", "said", "start", "tail", "ttl")

    def __init__(self, name: str, ttl: float, capacity: int, weight: int) -> None:
        """Pack these parts."""
        where = keys(name)
        life = b"%d" % (ttl * 1000)
        self.bucket = where.bucket
        self.start = CLAIM.packet(12, b"$1\r\n5\r\n" + where.lock + where.last + where.tomb)
        self.middle = b"\r\n" + where.queue + b"$32\r\n"
        self.ttl = b"\r\n" + bulk(life) + b"$13\r\n"  # `not_after` follows: 13 digits until 2286
        self.said = b"%d %d %b %d " % (capacity, weight, life, min(ttl, LONGEST_WAIT) * 1000)
        self.tail: tuple[bytes | None, bytes] = (None, b"")
        """The last payload, and the end of a packet with it. A worker's payload changes only once
        a second."""

    def end(self, payload: bytes) -> bytes:
        """Pack the end of a packet, and keep it for the next claim with this payload."""
        tail = bulk(self.said + payload)
        self.tail = (payload, tail)
        return tail


claim_form = lru_cache(maxsize=16384)(ClaimForm)
"""Return the form for claims of one shape. A cache keeps those of the last 16,384 shapes."""


def claim(form: ClaimForm, ask: Ask, not_after: int, base: bytes) -> bytes:
    """Pack a call of claim.lua."""
    ident = ask.id.encode()
    payload, tail = form.tail
    if payload is not ask.payload:
        tail = form.end(ask.payload)
    return b"".join(
        (
            form.start,
            ident,
            form.middle,
            ident,
            form.ttl,
            b"%013d" % not_after,
            FLAGS[ask.queue],
            base,
            tail,
        )
    )


class ResignForm(NamedTuple):
    """The start of a resignation's packet, up to the id, and the bucket of its name."""

    bucket: int
    start: bytes


@lru_cache(maxsize=16384)
def resign_form(name: str) -> ResignForm:
    """Return the start of the packet that all resignations from one name share."""
    where = keys(name)
    rest = b"$1\r\n4\r\n" + where.lock + where.queue + where.tomb
    return ResignForm(where.bucket, RESIGN.packet(7, rest))


def resign(form: ResignForm, ask: Ask, until: int) -> bytes:
    """Pack a call of resign.lua for one claim. `until` is the server time until which a copy of
    the claim could be applied, or 0 for no tombstone.

    The tombstone outlives `until`, and also one wait_ttl from the server's now. The client's idea
    of the server's clock may be wrong, as it is when a client breaks another client's claim.
    """
    ident, stone = sent(ask.id), NO_STONE
    if until:
        life = ask.shape.wait_ttl * 1000 + MARGIN
        stone = bulk(b"%d %d" % (until + MARGIN, life))
    return b"".join((form.start, ident, b"\r\n$32\r\n", ident, b"\r\n", stone))


def sent(ident: str) -> bytes:
    """Encode an id, and raise ValueError unless it has 32 bytes. The packets state that length, so
    Redis would read the rest of a longer id as another command.
    """
    raw = ident.encode()
    if len(raw) != ID:
        raise ValueError("not the id of a claim")
    return raw


class Renewal(NamedTuple):
    """A claim's part of a renewal. The claim keeps it, since 100,000 claims would fill a cache."""

    bucket: int
    keys: bytes
    args: bytes


def renewal(ask: Ask) -> Renewal:
    """Return a claim's part of a renewal. It is packed once and kept in `ask.packed`."""
    packed = ask.packed
    if not isinstance(packed, Renewal):
        where, ttl = Keys(ask.shape.name), b"%d" % (ask.shape.ttl * 1000)
        args = b"$32\r\n%b\r\n$%d\r\n%b\r\n" % (ask.id.encode(), len(ttl), ttl)
        packed = ask.packed = Renewal(where.bucket, where.lock + where.queue, args)
    return packed


def renew(parts: Sequence[Renewal]) -> bytes:
    """Pack a call of renew.lua for several claims."""
    rest = [bulk(b"%d" % (3 * len(parts)))]
    rest += [part.keys for part in parts]
    rest += [part.args for part in parts]
    return RENEW.packet(1 + 5 * len(parts), b"".join(rest))


def renew_alone(ask: Ask) -> bytes:
    """Pack a call of renew.lua for a sole holder, with the lock's key alone and the source."""
    rest = b"$1\r\n1\r\n" + keys(ask.shape.name).lock + renewal(ask).args
    return RENEW.whole(RENEW.packet(4, rest))


def inspect(name: str, most: int) -> bytes:
    """Pack a call of inspect.lua."""
    where = keys(name)
    return INSPECT.packet(5, b"$1\r\n3\r\n" + where.lock + where.queue + bulk(b"%d" % most))


_KEPT = bulk(b"%d" % RECORDS) + bulk(b"%d" % (REMEMBERED * 1000))


def record(key: bytes, line: bytes = b"") -> bytes:
    """Pack a call of record.lua that adds a line to the records, or without a line reads them."""
    start = b"$1\r\n1\r\n" + key
    return RECORD.packet(5, start + bulk(line) + _KEPT) if line else RECORD.packet(2, start)


def records(reply: Any) -> list[bytes]:
    """Return the records in a reply of record.lua, the newest first."""
    if reply is not None and type(reply) is not bytes:
        raise Malformed("not the records of breaks")
    return reply[: RECORDS * (RECORD_SIZE + 1)].split(b"\n", RECORDS)[:RECORDS] if reply else []


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
    with reading():
        digits, granted, left, ahead, behind, floor, recheck, *head = reply
        refused = digits == b"0" and granted == 0  # a claim without `queue`
        return Standing(
            ticket=0 if refused else number(digits, 1),
            granted=granted == 1,
            # Never more than the ttl, since the client trusts the lease for this long.
            left=min(number(left, -TOP, ask.shape.ttl * 1000 + SLACK) / 1000, ask.shape.ttl)
            - ROUNDING,
            ahead=number(ahead),
            behind=number(behind),
            floor=number(floor),
            blocker=Blocker(head[0].decode(), number(head[1]), octets(head[2])) if head else None,
            recheck=None if number(recheck, -TOP) < 0 else recheck / 1000,
        )


@contextmanager
def reading() -> Iterator[None]:
    """Raise `Malformed` in place of the errors that a bad reply causes in the `with` block."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
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
    Raise `KindMismatch` if the claims there have another capacity.
    """
    if type(reply) is list and reply and reply[0] in (b"dead", b"capacity"):
        with reading():
            what, told = reply
            value = number(told, 1, LATEST if what == b"dead" else TOP - 1)
        if what == b"dead":
            return value
        raise KindMismatch(ask.shape.name, ask.shape.capacity, value)
    return None


def entries(name: str, reply: Any) -> list[Entry]:
    """Return the entries in a reply of inspect.lua. Rows that lockfast did not write are left out,
    so that another program's value does not hide the others.
    """
    with reading():
        rows = list(reply)
    found = []
    for row in rows:
        with suppress(Malformed), reading():
            ident, ticket, granted, left, weight, capacity, payload = row
            found.append(
                Entry(
                    name=name,
                    id=claim_id(ident),
                    ticket=number(ticket),
                    granted=granted == 1,
                    weight=number(weight),
                    capacity=number(capacity),
                    left=number(left, -TOP) / 1000,
                    payload=octets(payload),
                )
            )
    return found
