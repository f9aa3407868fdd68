"""What is sent to Redis, and what comes back: claims to bytes, replies to standings. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, NamedTuple

from lockfast.engines.redis.keys import Keys, bulk, keys
from lockfast.engines.redis.scripts import CLAIM, INSPECT, RECORD, RENEW, RESIGN
from lockfast.errors import CapacityMismatch
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
TOP = 2**53  # what a ticket stays below
ROUNDING = 0.002  # seconds: the ttl is sent, and counted by Redis, in whole milliseconds
SLACK = 1000  # ms by which a reply may say more than the ttl before it is taken for nonsense
MARGIN = int(TOMB_MARGIN * 1000)  # ms
ID = 32  # bytes of an id
NO_STONE = b"$1\r\n0\r\n"
FLAGS = (b"\r\n$1\r\n0\r\n", b"\r\n$1\r\n1\r\n")


class ClaimForm:
    """A claim's packet, but for what differs from one claim to the next."""

    __slots__ = ("bucket", "middle", "said", "start", "tail", "ttl")

    def __init__(self, name: str, ttl: float, capacity: int, weight: int) -> None:
        """Write what claims of one shape have in common."""
        where = keys(name)
        life = b"%d" % (ttl * 1000)
        self.bucket = where.bucket
        self.start = CLAIM.packet(12, b"$1\r\n5\r\n" + where.lock + where.last + where.tomb)
        self.middle = b"\r\n" + where.queue + b"$32\r\n"
        self.ttl = b"\r\n" + bulk(life) + b"$13\r\n"  # what follows has 13 digits until 2286
        self.said = b"%d %d %b %d " % (capacity, weight, life, min(ttl, LONGEST_WAIT) * 1000)
        self.tail: tuple[bytes | None, bytes] = (None, b"")
        """The last payload, and a packet's end with it: a worker's is the same for a second."""

    def end(self, payload: bytes) -> bytes:
        """Write the end of a packet."""
        tail = bulk(self.said + payload)
        self.tail = (payload, tail)
        return tail


claim_form = lru_cache(maxsize=16384)(ClaimForm)
"""Return the form of claims; the last 16,384 shapes are remembered."""


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
    """A resignation's packet, but for the id."""

    bucket: int
    start: bytes


@lru_cache(maxsize=16384)
def resign_form(name: str) -> ResignForm:
    """Write what resignations from one name have in common."""
    where = keys(name)
    rest = b"$1\r\n4\r\n" + where.lock + where.queue + where.tomb
    return ResignForm(where.bucket, RESIGN.packet(7, rest))


def resign(form: ResignForm, ask: Ask, until: int) -> bytes:
    """Pack a call of resign.lua for one claim; `until` is the tombstone's end, or 0 for none.

    It stands from the server's now on for as long as a copy of the claim could be applied: what is
    known of the server's clock here may be wrong, as it is when somebody breaks another's claim.
    """
    ident, stone = sent(ask.id), NO_STONE
    if until:
        life = ask.shape.wait_ttl * 1000 + MARGIN
        stone = bulk(b"%d %d" % (until + MARGIN, life))
    return b"".join((form.start, ident, b"\r\n$32\r\n", ident, b"\r\n", stone))


def sent(ident: str) -> bytes:
    """Pack an id. Its length stands in the packets: another one would begin another command."""
    raw = ident.encode()
    if len(raw) != ID:
        raise ValueError("not the id of a claim")
    return raw


class Renewal(NamedTuple):
    """A claim's part of a renewal. It is kept on the claim: 100,000 of them would drown a cache."""

    bucket: int
    keys: bytes
    args: bytes


def renewal(ask: Ask) -> Renewal:
    """Return a claim's part of a renewal, made once."""
    packed = ask.packed
    if not isinstance(packed, Renewal):
        where, ttl = Keys(ask.shape.name), b"%d" % (ask.shape.ttl * 1000)
        args = b"$32\r\n%b\r\n$%d\r\n%b\r\n" % (ask.id.encode(), len(ttl), ttl)
        packed = ask.packed = Renewal(where.bucket, where.lock + where.queue, args)
    return packed


def renew(parts: Sequence[Renewal]) -> bytes:
    """Pack a call of renew.lua."""
    rest = [bulk(b"%d" % (3 * len(parts)))]
    rest += [part.keys for part in parts]
    rest += [part.args for part in parts]
    return RENEW.packet(1 + 5 * len(parts), b"".join(rest))


def renew_alone(ask: Ask) -> bytes:
    """Pack a call of renew.lua for a sole holder, by the lock's key alone, with the script."""
    rest = b"$1\r\n1\r\n" + keys(ask.shape.name).lock + renewal(ask).args
    return RENEW.whole(RENEW.packet(4, rest))


def inspect(name: str, most: int) -> bytes:
    """Pack a call of inspect.lua."""
    where = keys(name)
    return INSPECT.packet(5, b"$1\r\n3\r\n" + where.lock + where.queue + bulk(b"%d" % most))


_KEPT = bulk(b"%d" % RECORDS) + bulk(b"%d" % (REMEMBERED * 1000))


def record(key: bytes, line: bytes = b"") -> bytes:
    """Pack a call of record.lua: keep a line, or without one read what is kept."""
    start = b"$1\r\n1\r\n" + key
    return RECORD.packet(5, start + bulk(line) + _KEPT) if line else RECORD.packet(2, start)


def records(reply: Any) -> list[bytes]:
    """Read the reply of record.lua."""
    if reply is not None and type(reply) is not bytes:
        raise Malformed("not the records of breaks")
    return reply[: RECORDS * (RECORD_SIZE + 1)].split(b"\n", RECORDS)[:RECORDS] if reply else []


class Malformed(Exception):
    """A reply that no script of ours gives: what has sent it is not to be trusted."""


def standing(reply: Any, ask: Ask) -> Standing:
    """Read a standing; one number alone means a sole holder with its whole ttl before it."""
    if type(reply) is bytes:
        try:
            ticket = int(reply)
        except ValueError as error:
            raise Malformed("no ticket") from error
        if not 0 < ticket < TOP:
            raise Malformed("a ticket out of bounds")
        # As `Standing(...)` does it, in half the time: a hot path.
        left = ask.shape.ttl - ROUNDING
        return tuple.__new__(Standing, (ticket, True, left, 0, 0, ticket, None, None))
    with reading():
        digits, granted, left, ahead, behind, floor, recheck, *head = reply
        refused = digits == b"0" and granted == 0  # of one that would not queue
        return Standing(
            ticket=0 if refused else number(digits, 1),
            granted=granted == 1,
            # Never more than was asked for: a lease is believed in for so long.
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
    """Turn whatever goes wrong in here into `Malformed`."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise Malformed(str(error) or type(error).__name__) from error


def claim_id(raw: Any) -> str:
    """Read the id of a claim. Whoever may write to Redis may have put anything in its place, and
    a resignation sends an id as it is, behind its length.
    """
    if type(raw) is not bytes or not IDENT.fullmatch(raw):
        raise Malformed("no id")
    return raw.decode()


def octets(raw: Any) -> bytes:
    """Read bytes. `bytes()` would make as many zeros of a number as it says."""
    if type(raw) is not bytes:
        raise Malformed("no bytes")
    return raw


def number(raw: Any, least: float = 0, most: float = TOP - 1) -> int:
    """Read a whole number, or digits, within bounds."""
    if type(raw) is not int and type(raw) is not bytes:
        raise Malformed("no number")
    value = int(raw)
    if not least <= value <= most:
        raise Malformed("a number out of bounds")
    return value


def renewed(reply: Any, count: int) -> tuple[list[Any], int]:
    """Read the reply of renew.lua: what it says of each claim, and the server's time in ms."""
    if type(reply) is not list or len(reply) != count + 1:
        raise Malformed("not a reply to a renewal")
    with reading():
        return reply[:-1], number(reply[-1], 1)


def resigned(reply: Any) -> bool:
    """Read the reply of resign.lua for one claim."""
    if type(reply) is not list or len(reply) != 1 or reply[0] not in (0, 1):
        raise Malformed("not a reply to a release")
    return bool(reply[0])


def refusal(reply: Any, ask: Ask) -> int | None:
    """Read a refused claim: the server's time in ms if the id is dead, None if it is a standing."""
    if type(reply) is list and reply and reply[0] in (b"dead", b"capacity"):
        with reading():
            what, told = reply
            value = number(told, 1)
        if what == b"dead":
            return value
        raise CapacityMismatch(ask.shape.name, ask.shape.capacity, value)
    return None


def entries(name: str, reply: Any) -> list[Entry]:
    """Read what inspect.lua shows. A value that is not as we write it is left out: somebody else's
    key must not hide our locks.
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
