"""Writes the SQL statements of all operations, for threads and asyncio.

Only numbers, ids and hexadecimal digits are ever written into a statement, so there is nothing to
quote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from lockfast.engines.sql import pages
from lockfast.port import ATTACHED, Ask, Shape


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
    """Return the statement for several claims. Each array is one literal, because the server parses
    an ARRAY[...] item by item.
    """
    shapes = [ask.shape for ask in asks]
    arrays = ", ".join(
        [
            _names(asks),
            f"{_ids(asks)}::pg_catalog.text[]",  # not the function with this name for one claim
            _array(f"{shape.kind:d}" for shape in shapes),
            _array(f"{shape.capacity:d}" for shape in shapes),
            _array(f"{shape.weight:d}" for shape in shapes),
            _array(f"{shape.ttl * 1e6:.0f}" for shape in shapes),
            _array(f"{shape.wait_ttl * 1e6:.0f}" for shape in shapes),
            _array("t" if ask.queue else "f" for ask in asks),
            _array(f"{late:d}" for late in lates),
            f"{base:d}",
            _blobs(_blob(ask.payload) for ask in asks),
            _array(f'"{word}"' for word in words),
        ]
    )
    return f"SELECT lockfast.claim_v2({arrays})".encode()


def renew(asks: Sequence[Ask]) -> bytes:
    """Return the statement that renews all of these claims."""
    return f"SELECT lockfast.renew_v2({_names(asks)}, {_ids(asks)})".encode()


def resign(asks: Sequence[Ask], untils: Sequence[int] | None) -> bytes:
    """Return the statement that resigns all of these claims. `untils`: in doubt, the server times
    until which their tombstones must stay.
    """
    # Not an array of NULLs: with array_nulls = off, that would be words that are no numbers.
    each = "NULL" if untils is None else _array(f"{until:d}" for until in untils)
    return f"SELECT lockfast.resign_v2({_names(asks)}, {_ids(asks)}, {each})".encode()


def attach(asks: Sequence[Ask]) -> bytes:
    """Return the statement that stores to which connections these claims belong."""
    epochs = _array(f"{ask.epoch:d}" for ask in asks)
    lives = _array(f"{(ask.shape.ttl + ATTACHED) * 1e6:.0f}" for ask in asks)
    return f"SELECT lockfast.attach_v2({_ids(asks)}, {epochs}, {lives})".encode()


def depart(asks: Sequence[Ask], untils: Sequence[int]) -> bytes:
    """Return the statement that removes those claims that still belong to their connection."""
    each, epochs = (
        _array(f"{until:d}" for until in untils),
        _array(f"{ask.epoch:d}" for ask in asks),
    )
    return f"SELECT lockfast.depart_v2({_names(asks)}, {_ids(asks)}, {each}, {epochs})".encode()


def tell(notes: Sequence[str]) -> bytes:
    """Return the statement that notifies the waiters that a resignation has let in. It does not
    wait for the disk, because a waiter that misses its notification soon looks by itself.

    Each notification is a row of its own, because a row has at most 1,664 columns, and the end of
    one writer can let in more readers.
    """
    channels = _array(f"lockfast_{note[:22]}" for note in notes)
    texts = _array(f'"{note}"' for note in notes)
    return (
        "SET LOCAL synchronous_commit = off; SELECT pg_catalog.pg_notify(n.channel, n.note) "
        # With several arrays, `unnest` is syntax, which always means PostgreSQL's own.
        f"FROM unnest({channels}::pg_catalog.text[], {texts}::pg_catalog.text[]) n(channel, note)"
    ).encode()


def listen(clients: Mapping[str, bool]) -> bytes:
    """Return the statements that begin or end to listen for the notifications of clients."""
    return "; ".join(
        [
            f"{'LISTEN' if on else 'UNLISTEN'} lockfast_{_checked(client)}"
            for client, on in clients.items()
        ]
    ).encode()


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
    return f"SELECT * FROM lockfast.show_v2({pages.of_one(name, _bytes)})".encode()


def show_page(prefix: str, cursor: str | None) -> bytes:
    """Return the statement that reads the next claims on names with that prefix."""
    return f"SELECT * FROM lockfast.show_v2({pages.of_prefix(prefix, cursor, _bytes)})".encode()


def _bytes(raw: bytes) -> str:
    return f"E'\\\\x{raw.hex()}'"


def _id(ask: Ask) -> str:
    return _checked(ask.id)


def _checked(claim: str) -> str:
    if not claim.isalnum():
        raise ValueError(f"not the id of a claim: {claim!r}")
    return claim


def _names(asks: Sequence[Ask]) -> str:
    return _blobs(_name(ask.shape.name) for ask in asks)


@lru_cache(1024)
def _name(name: str) -> str:
    return _blob(name.encode())


def _blob(raw: bytes) -> str:
    # The backslash is escaped twice, for the string and for the array literal in it.
    return f"\\\\\\\\x{raw.hex()}"


def _blobs(blobs: Iterable[str]) -> str:
    return f"E{_array(blobs)}"


def _ids(asks: Sequence[Ask]) -> str:
    return _array(_id(ask) for ask in asks)


def _array(items: Iterable[str]) -> str:
    return f"'{{{','.join(items)}}}'"
