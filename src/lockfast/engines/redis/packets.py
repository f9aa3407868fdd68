"""What is sent to Redis, and what comes back: claims to bytes, replies to standings. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from lockfast.engines.redis.keys import Keys, bulk, keys
from lockfast.engines.redis.scripts import CLAIM, INSPECT, RENEW, RESIGN
from lockfast.errors import CapacityMismatch
from lockfast.port import LONGEST_WAIT, Ask, Blocker, Entry, Standing

TOMB_MARGIN = 1000  # ms that a tombstone outlives the last moment at which a copy is applied
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
"""Give the form of claims; the last 16,384 shapes are remembered."""


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
    """Pack a call of resign.lua for one claim; `until` is the tombstone's end, or 0 for none."""
    ident = ask.id.encode()
    stone = bulk(b"%d" % (until + TOMB_MARGIN)) if until else NO_STONE
    return b"".join((form.start, ident, b"\r\n$32\r\n", ident, b"\r\n", stone))


class Renewal(NamedTuple):
    """A claim's part of a renewal. It is kept on the claim: 100,000 of them would drown a cache."""

    bucket: int
    keys: bytes
    args: bytes


def renewal(ask: Ask) -> Renewal:
    """Give a claim's part of a renewal, made once."""
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


def standing(reply: Any, ask: Ask) -> Standing:
    """Read a standing; one number alone means a sole holder with its whole ttl before it."""
    if type(reply) is bytes:
        ticket = int(reply)
        # As `Standing(...)` does it, in half the time: a hot path.
        return tuple.__new__(Standing, (ticket, True, ask.shape.ttl, 0, 0, ticket, None, None))
    ticket, granted, left, ahead, behind, floor, recheck, *head = reply
    return Standing(
        ticket=int(ticket),
        granted=granted == 1,
        left=left / 1000,
        ahead=ahead,
        behind=behind,
        floor=int(floor),
        blocker=Blocker(head[0].decode(), int(head[1]), head[2]) if head else None,
        recheck=None if recheck < 0 else recheck / 1000,
    )


def refusal(reply: Any, ask: Ask) -> int | None:
    """Read a refused claim: the server's time in ms if the id is dead, None if it is a standing."""
    if type(reply) is list:
        if reply[0] == b"dead":
            return int(reply[1])
        if reply[0] == b"capacity":
            raise CapacityMismatch(ask.shape.name, ask.shape.capacity, int(reply[1]))
    return None


def entries(name: str, reply: Any) -> list[Entry]:
    """Read what inspect.lua shows."""
    return [
        Entry(
            name=name,
            id=ident.decode(),
            ticket=int(ticket),
            granted=granted == 1,
            weight=int(weight),
            capacity=int(capacity),
            left=left / 1000,
            payload=payload,
        )
        for ident, ticket, granted, left, weight, capacity, payload in reply
    ]
