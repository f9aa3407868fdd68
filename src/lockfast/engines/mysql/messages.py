"""Writes the statements of all operations, for threads and asyncio.

Only numbers and hexadecimal digits are ever written into a statement, so there is nothing to quote.
schema.sql describes the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from zlib import crc32

from lockfast.engines.sql import pages
from lockfast.port import ATTACHED, Ask, Shape

BUCKETS = 1024  # and as many slots of ears
CLIENT = 22  # hexadecimal digits of an id that name the client
ID = 32
CLAIM_HEAD, HEAD = 110, 42  # bytes of a record, of a resignation too, without its name and payload
EPOCH = 16  # bytes of the number of a connection to the service
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


def claim_size(ask: Ask) -> int:
    """Return how many bytes of the statement for claims are this one."""
    return 2 * (CLAIM_HEAD + len(ask.payload)) + len(_name(ask.shape.name))


def size(ask: Ask) -> int:
    """Return how many bytes of a statement that renews or resigns are this claim, at most."""
    return 2 * HEAD + len(_name(ask.shape.name))


def ending_size(ask: Ask) -> int:
    """Return how many bytes of a statement are this claim that attaches it, or lets it depart."""
    return size(ask) + 2 * EPOCH


def claim(asks: Sequence[Ask], lates: Sequence[int], base: int) -> bytes:
    """Return the statement for claims, in the order that they are given. `lates`: the latest time
    of each by the server's clock, in µs.
    """
    records: list[str] = []
    payloads: list[str] = []
    names, at = Names(), 1
    for ask, late in zip(asks, lates, strict=True):
        payload = ask.payload
        if len(payload) > LISTED:
            raise ValueError("a payload of more than 65,536 bytes")
        waiting, resting = _shape(ask.shape)
        name = names.add(ask.shape.name)
        first = waiting if ask.queue else resting
        last = (b"%016d%05d%07d" % (late, len(payload), at)).hex()
        records.append(f"{_id(ask.id)}{name}{first}{last}")
        payloads.append(payload.hex())
        at += len(payload)
    text = f"x'{''.join(records)}', {names}, x'{''.join(payloads)}'"
    return f"CALL lockfast_claim_v1({base:d}, {text})".encode()


@lru_cache(4096)
def _shape(shape: Shape) -> tuple[str, str]:
    """Return what all claims of a lock have in common, in hexadecimal digits: for a claim that may
    wait, and for one that may not.
    """
    sizes = b"%010d%010d" % (shape.capacity, shape.weight)
    times = b"%016d%016d" % (round(shape.ttl * 1e6), round(shape.wait_ttl * 1e6))
    first, second = (b"%03d%d" % (shape.kind, queue) + sizes + times for queue in (1, 0))
    return first.hex(), second.hex()


class Names:
    """The names of a batch, one behind the other."""

    __slots__ = ("_at", "_names")

    def __init__(self) -> None:
        """Start without names."""
        self._names: list[str] = []
        self._at = 1

    def add(self, name: str) -> str:
        """Add a name, and return its length and its place in hexadecimal digits."""
        raw = _name(name)
        self._names.append(raw)
        size = len(raw) // 2
        where = (b"%03d%07d" % (size, self._at)).hex()
        self._at += size
        return where

    def __str__(self) -> str:
        """Return them as a value of bytes."""
        return f"x'{''.join(self._names)}'"


@lru_cache(4096)
def _name(name: str) -> str:
    return name.encode().hex()


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
    return f"CALL lockfast_resign_v1({_removals(asks, untils or [0] * len(asks))})".encode()


def _removals(asks: Sequence[Ask], untils: Sequence[int]) -> str:
    """Return the records of resignations, and their names."""
    names = Names()
    records = "".join(
        [
            f"{_id(ask.id)}{names.add(ask.shape.name)}{(b'%016d' % until).hex()}"
            for ask, until in zip(asks, untils, strict=True)
        ]
    )
    return f"x'{records}', {names}"


def attach(asks: Sequence[Ask]) -> bytes:
    """Return the statement that stores to which connections these claims belong."""
    records = "".join([f"{_id(ask.id)}{_attachment(ask)}" for ask in asks])
    return f"CALL lockfast_attach_v1(x'{records}')".encode()


def _attachment(ask: Ask) -> str:
    return (b"%016d%016d" % (ask.epoch, round((ask.shape.ttl + ATTACHED) * 1e6))).hex()


def depart(asks: Sequence[Ask], untils: Sequence[int]) -> bytes:
    """Return the statement that removes those claims that still belong to their connection."""
    epochs = "".join([(b"%016d" % ask.epoch).hex() for ask in asks])
    return f"CALL lockfast_depart_v1({_removals(asks, untils)}, x'{epochs}')".encode()


def hold_ear(client: str) -> bytes:
    """Return the statement by which the connection of a client's ear becomes known."""
    return f"SELECT GET_LOCK({_lock(client)}, 0)".encode()


def ear(client: str, seen: int) -> bytes:
    """Return the statement that waits for notes to a client, after the first `seen`."""
    return f"CALL lockfast_ear_v1({slot(client):d}, {seen:d})".encode()


def hold_ears(clients: Iterable[str]) -> bytes:
    """Return the statement that does the same for many clients, and tells for each with a digit
    whether it is known. It can be repeated: a lock that is taken twice must be given back twice.
    """
    each = [
        f"IF(IS_USED_LOCK({lock}) = CONNECTION_ID(), 1, IFNULL(GET_LOCK({lock}, 0), 0))"
        for lock in map(_lock, clients)
    ]
    return f"SELECT CONCAT({', '.join(each)})".encode()


def leave_ears(clients: Iterable[str]) -> bytes:
    """Return the statement after which the connection is not that of these clients."""
    return f"DO {', '.join([f'RELEASE_LOCK({_lock(client)})' for client in clients])}".encode()


def _lock(client: str) -> str:
    return f"'lockfast_{bytes.fromhex(client).hex()}'"


def ears(seen: Mapping[int, int]) -> bytes:
    """Return the statement that waits for notes in several slots, after so many in each."""
    pairs = ",".join([f"[{place:d},{count:d}]" for place, count in seen.items()])
    return f"CALL lockfast_ears_v1('[{pairs}]')".encode()


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
