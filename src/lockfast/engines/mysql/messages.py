"""Writes the statements of all operations, for threads and asyncio.

Only numbers and hexadecimal digits are ever written into a statement, so there is nothing to quote.
schema.sql describes the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

from lockfast.engines.sql import pages
from lockfast.port import Ask, Shape

BUCKETS = 1024  # and as many slots of ears
CLIENT = 22  # hexadecimal digits of an id that name the client
ID = 32
LISTED = 2**16  # the longest payload, and what the five digits of its length can say


def order(asks: Sequence[Ask]) -> list[int]:
    """Return the places of claims in the order of their buckets, in which all operations lock
    them: then no two deadlock.
    """
    if len(asks) == 1:
        return [0]
    return sorted(range(len(asks)), key=lambda place: bucket(asks[place].shape.name))


def bucket(name: str) -> int:
    """Return the bucket of a name, computed as schema.sql does."""
    return crc32(name.encode()) % BUCKETS


def slot(client: str) -> int:
    """Return the slot of a client's ear, computed as schema.sql does."""
    return crc32(bytes.fromhex(client)) % BUCKETS


def claim(asks: Sequence[Ask], lates: Sequence[int], base: int) -> bytes:
    """Return the statement for claims, in the order that they are given. `lates`: the latest time
    of each by the server's clock, in µs.
    """
    records = "".join([_claim(ask, late) for ask, late in zip(asks, lates, strict=True)])
    return f"CALL lockfast_claim_v1({base:d}, x'{records}')".encode()


def _claim(ask: Ask, late: int) -> str:
    waiting, resting, name = _shape(ask.shape)
    payload = ask.payload
    if len(payload) > LISTED:
        raise ValueError("a payload of more than 65,536 bytes")
    digits = b"%016d" % late
    lengths = b"%05d" % len(payload)
    first = waiting if ask.queue else resting
    return f"{first}{digits.hex()}{name[:6]}{lengths.hex()}{_id(ask.id)}{name[6:]}{payload.hex()}"


@lru_cache(4096)
def _shape(shape: Shape) -> tuple[str, str, str]:
    """Return what all claims of a lock have in common, in hexadecimal digits: the start of a claim
    that may wait, that of one that may not, and the length of the name with the name.
    """
    sizes = b"%010d%010d" % (shape.capacity, shape.weight)
    times = b"%016d%016d" % (round(shape.ttl * 1e6), round(shape.wait_ttl * 1e6))
    starts = [b"%03d%d" % (shape.kind, queue) + sizes + times for queue in (1, 0)]
    return starts[0].hex(), starts[1].hex(), _name(shape.name)


@lru_cache(4096)
def _name(name: str) -> str:
    raw = name.encode()
    return (b"%03d" % len(raw) + raw).hex()


def _id(ident: str) -> str:
    """Return an id, which must consist of 32 hexadecimal digits: the records have room for that."""
    if len(ident) != ID or not ident.isalnum():
        raise ValueError(f"not the id of a claim: {ident!r}")
    int(ident, 16)
    return ident


def renew(asks: Sequence[Ask]) -> bytes:
    """Return the statement that renews claims, in the order that they are given."""
    records = "".join([_renewal(ask) for ask in asks])
    return f"CALL lockfast_renew_v1(x'{records}')".encode()


def _renewal(ask: Ask) -> str:
    """Return the record of a renewal. The claim keeps it, since 100,000 would fill a cache."""
    packed = ask.packed
    if not isinstance(packed, str):
        raw = ask.shape.name.encode()
        packed = ask.packed = f"{(b'%03d' % len(raw)).hex()}{_id(ask.id)}{raw.hex()}"
    return packed


def resign(asks: Sequence[Ask], untils: Sequence[int] | None) -> bytes:
    """Return the statement that resigns claims, in the order that they are given. `untils`: in
    doubt, the server times until which their tombstones must stay.
    """
    each = untils or [0] * len(asks)
    records = "".join(
        [
            f"{(b'%016d' % until).hex()}{name[:6]}{_id(ask.id)}{name[6:]}"
            for ask, until in zip(asks, each, strict=True)
            for name in (_name(ask.shape.name),)
        ]
    )
    return f"CALL lockfast_resign_v1(x'{records}')".encode()


def hold_ear(client: str) -> bytes:
    """Return the statement by which the connection of a client's ear becomes known."""
    return f"SELECT GET_LOCK('lockfast_{bytes.fromhex(client).hex()}', 0)".encode()


def ear(client: str, seen: int) -> bytes:
    """Return the statement that waits for notes to a client, after the first `seen`."""
    return f"CALL lockfast_ear_v1({slot(client):d}, {seen:d})".encode()


def wake(client: str) -> bytes:
    """Return the statement that wakes a client, and tells whether the server may do that."""
    return f"CALL lockfast_wake_v1({_bytes(bytes.fromhex(client))})".encode()


def record(name: str, claim: str, line: bytes) -> bytes:
    """Return the statement that keeps the record of a break."""
    words = f"{_bytes(name.encode())}, x'{_id(claim)}', {_bytes(line)}"
    return f"CALL lockfast_record_v1({words})".encode()


def records(name: str) -> bytes:
    """Return the statement that reads the records of a name."""
    return f"CALL lockfast_records_v1({_bytes(name.encode())})".encode()


def show_one(name: str) -> bytes:
    """Return the statement that reads the claims on one name."""
    return f"CALL lockfast_show_v1({pages.of_one(name, _bytes)})".encode()


def show_page(prefix: str, cursor: str | None) -> bytes:
    """Return the statement that reads the next claims on names with that prefix."""
    return f"CALL lockfast_show_v1({pages.of_prefix(prefix, cursor, _bytes)})".encode()


def _bytes(raw: bytes) -> str:
    return f"x'{raw.hex()}'"
