"""What is sent to Redis, and what comes back: claims to bytes, replies to standings. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lockfast.engines.redis.keys import bulk, keys
from lockfast.errors import CapacityMismatch
from lockfast.port import Ask, Blocker, Entry, Standing

TOMB_MARGIN = 1000  # ms that a tombstone outlives the last moment at which a copy is applied


def claim(ask: Ask, not_after: int, base: bytes) -> bytes:
    """Pack the arguments of claim.lua: 12 of them."""
    shape, ident = ask.shape, ask.id.encode()
    where = keys(shape.name)
    ttl = b"%d" % (shape.ttl * 1000)
    said = b"%d %d %b %d %b" % (
        shape.capacity,
        shape.weight,
        ttl,
        shape.wait_ttl * 1000,
        ask.payload,
    )
    until = b"%d" % not_after
    return (
        b"$1\r\n5\r\n%b%b%b%b\r\n%b$32\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n$1\r\n%d\r\n%b$%d\r\n%b\r\n"
        % (
            where.lock,
            where.last,
            where.tomb,
            ident,
            where.queue,
            ident,
            len(ttl),
            ttl,
            len(until),
            until,
            ask.queue,
            base,
            len(said),
            said,
        )
    )


CLAIM_ARGS = 12


def resign_one(ask: Ask, until: int) -> bytes:
    """Pack the arguments of resign.lua for one claim: the common case, so by itself."""
    where, ident = keys(ask.shape.name), ask.id.encode()
    return b"$1\r\n4\r\n%b%b%b%b\r\n$32\r\n%b\r\n%b" % (
        where.lock,
        where.queue,
        where.tomb,
        ident,
        ident,
        b"$1\r\n0\r\n" if not until else bulk(b"%d" % (until + TOMB_MARGIN)),
    )


RESIGN_ARGS = 7


def renew(asks: Sequence[Ask]) -> tuple[bytes, int]:
    """Pack the arguments of renew.lua, and count them."""
    parts = [bulk(b"%d" % (3 * len(asks)))]
    for ask in asks:
        where = keys(ask.shape.name)
        parts += (where.lock, where.queue)
    for ask in asks:
        ttl = b"%d" % (ask.shape.ttl * 1000)
        parts.append(b"$32\r\n%b\r\n$%d\r\n%b\r\n" % (ask.id.encode(), len(ttl), ttl))
    return b"".join(parts), 1 + 5 * len(asks)


def inspect(name: str, most: int) -> bytes:
    """Pack the arguments of inspect.lua: 5 of them."""
    where = keys(name)
    return b"$1\r\n3\r\n" + where.lock + where.queue + bulk(b"%d" % most)


INSPECT_ARGS = 5


def standing(reply: Any, ask: Ask) -> Standing:
    """Read a standing; one number alone means a sole holder with its whole ttl before it."""
    if type(reply) is bytes:
        ticket = int(reply)
        return Standing(ticket, True, ask.shape.ttl, 0, 0, ticket)  # noqa: FBT003  # a hot path
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
