"""Writes the SQL statements of all operations, for threads and asyncio.

Only numbers, ids and hexadecimal digits are ever written into a statement, so there is nothing to
quote.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256

from lockfast.port import Ask, Shape

SHOWN = 1000  # claims of one lock that `inspect` shows
PAGE = 500


def claim(ask: Ask, late: int, base: int, word: str) -> bytes:
    """Return the statement for a claim. `late`: its latest time by the server's clock, in µs.
    `word`: the secret that signs its push.
    """
    shape = ask.shape
    name, numbers = _shape(shape)
    return (
        f"SELECT lockfast.claim_v2({name}, '{_id(ask)}', {numbers}, {ask.queue}, {late:d}, "
        f"{base:d}, {_bytes(ask.payload)}, '{word}')"
    ).encode()


@lru_cache(1024)
def _shape(shape: Shape) -> tuple[str, str]:
    """Return the SQL of what all claims of a lock have in common."""
    sizes = f"{shape.kind:d}, {shape.capacity:d}, {shape.weight:d}"
    return _bytes(
        shape.name.encode()
    ), f"{sizes}, {shape.ttl * 1e6:.0f}, {shape.wait_ttl * 1e6:.0f}"


def claim_all(asks: Sequence[Ask], lates: Sequence[int], base: int, words: Sequence[str]) -> bytes:
    """Return the statement for several claims. A function in a SELECT runs row by row, so the rows
    are in the order in which a renewal locks buckets. Then no two transactions deadlock.
    """
    order = sorted(range(len(asks)), key=lambda place: _bucket(asks[place]))
    some = [asks[place] for place in order]
    shapes = [ask.shape for ask in some]
    arrays = ", ".join(
        [
            _numbers(order),
            f"{_names(some)}::pg_catalog.bytea[]",
            f"{_ids(some)}::pg_catalog.text[]",
            _numbers(shape.kind for shape in shapes),
            _numbers(shape.capacity for shape in shapes),
            _numbers(shape.weight for shape in shapes),
            _numbers(round(shape.ttl * 1e6) for shape in shapes),
            _numbers(round(shape.wait_ttl * 1e6) for shape in shapes),
            f"ARRAY[{', '.join('true' if ask.queue else 'false' for ask in some)}]",
            _numbers(lates[place] for place in order),
            f"ARRAY[{', '.join(_bytes(ask.payload) for ask in some)}]::pg_catalog.bytea[]",
            f"'{{{','.join(words[place] for place in order)}}}'::pg_catalog.text[]",
        ]
    )
    return (
        "SELECT a.place, lockfast.claim_v2(a.name, a.id, a.kind::pg_catalog.int4, "
        "a.capacity::pg_catalog.int4, a.weight::pg_catalog.int4, a.ttl, a.wait_ttl, a.queue, "
        # With several arrays, `unnest` is syntax, which always means PostgreSQL's own.
        f"a.late, {base:d}, a.payload, a.word) FROM unnest({arrays}) "
        "a(place, name, id, kind, capacity, weight, ttl, wait_ttl, queue, late, payload, word)"
    ).encode()


def _numbers(numbers: Iterable[int]) -> str:
    return f"ARRAY[{', '.join(f'{number:d}' for number in numbers)}]::pg_catalog.int8[]"


def _bucket(ask: Ask) -> int:
    """Return the bucket of a name, computed as bucket_v1 in schema.sql does."""
    digest = sha256(ask.shape.name.encode()).digest()
    return digest[0] % 4 * 256 + digest[1]


def renew(asks: Sequence[Ask]) -> bytes:
    """Return the statement that renews all of these claims."""
    return f"SELECT lockfast.renew_v2({_names(asks)}, {_ids(asks)})".encode()


def resign(asks: Sequence[Ask], untils: Sequence[int] | None) -> bytes:
    """Return the statement that resigns all of these claims. `untils`: in doubt, the server times
    until which their tombstones must stay.
    """
    each = ["NULL"] * len(asks) if untils is None else [f"{until:d}" for until in untils]
    words = ",".join(each)
    return f"SELECT lockfast.resign_v2({_names(asks)}, {_ids(asks)}, '{{{words}}}')".encode()


def tell(notes: Sequence[str]) -> bytes:
    """Return the statement that notifies the waiters that a resignation has let in. It does not
    wait for the disk, because a waiter that misses its notification soon looks by itself.
    """
    calls = [f"pg_catalog.pg_notify('lockfast_{note[:22]}', '{note}')" for note in notes]
    return f"SET LOCAL synchronous_commit = off; SELECT {', '.join(calls)}".encode()


def record(name: str, claim: str, line: bytes) -> bytes:
    """Return the statement that keeps the record of a break."""
    return (
        f"SELECT lockfast.record_v2({_bytes(name.encode())}, '{_checked(claim)}', {_bytes(line)})"
    ).encode()


def records(name: str) -> bytes:
    """Return the statement that reads the records of a name."""
    return f"SELECT * FROM lockfast.records_v2({_bytes(name.encode())})".encode()


def show_one(name: str) -> bytes:
    """Return the statement that reads the claims on one name."""
    return _show(_bytes(name.encode()), "NULL, NULL, NULL", SHOWN)


def show_page(prefix: str, cursor: str | None) -> bytes:
    """Return the statement that reads the next claims on names with that prefix, in the order of
    names and queues.
    """
    raw = prefix.encode()
    # No byte of UTF-8 is 0xff, so this sorts behind all names that have the prefix.
    below = _bytes(raw + bytes([255]))
    if cursor is None:
        return _show(_bytes(raw), f"{below}, NULL, NULL", PAGE)
    name, waits, ticket = cursor.split(" ")
    behind = f"{waits == 'waits'}, {int(ticket):d}"
    return _show(_bytes(bytes.fromhex(name)), f"{below}, {behind}", PAGE)


def _show(name: str, rest: str, most: int) -> bytes:
    return f"SELECT * FROM lockfast.show_v2({name}, {rest}, {most})".encode()


def _bytes(raw: bytes) -> str:
    return f"E'\\\\x{raw.hex()}'"


def _id(ask: Ask) -> str:
    return _checked(ask.id)


def _checked(claim: str) -> str:
    if not claim.isalnum():
        raise ValueError(f"not the id of a claim: {claim!r}")
    return claim


def _names(asks: Sequence[Ask]) -> str:
    words = ",".join([_name(ask.shape.name) for ask in asks])
    return f"E'{{{words}}}'"


@lru_cache(1024)
def _name(name: str) -> str:
    # The backslash is escaped twice, for the string and for the array literal in it.
    return f"\\\\\\\\x{name.encode().hex()}"


def _ids(asks: Sequence[Ask]) -> str:
    words = ",".join([_id(ask) for ask in asks])
    return f"'{{{words}}}'"
