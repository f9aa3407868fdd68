"""Statements and replies: what is sent, and what comes back. No colour.

Nothing but numbers, ids and hexadecimal digits is ever written into a statement, so there is
nothing to quote. An operation answers with one value, a text of words: it costs both sides less
than a row of as many columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256

from lockfast.engines.postgres.link import Row
from lockfast.errors import CapacityMismatch
from lockfast.port import Ask, Blocker, Entry, Standing

SHOWN = 1000  # claims of one lock that `inspect` shows
PAGE = 500


def claim(ask: Ask, late: int, base: int) -> bytes:
    """Write a claim; `late` is its latest time by the server's clock, in µs."""
    shape = ask.shape
    name, numbers = _shape(shape.name, shape.capacity, shape.weight, shape.ttl, shape.wait_ttl)
    return (
        f"SELECT lockfast.claim_v1({name}, '{_id(ask)}', {numbers}, {ask.queue}, {late:d}, "
        f"{base:d}, {_bytes(ask.payload)})"
    ).encode()


@lru_cache(1024)
def _shape(name: str, capacity: int, weight: int, ttl: float, wait_ttl: float) -> tuple[str, str]:
    """Write what all claims of a lock have in common."""
    numbers = f"{capacity:d}, {weight:d}, {ttl * 1e6:.0f}, {wait_ttl * 1e6:.0f}"
    return _bytes(name.encode()), numbers


def claim_all(asks: Sequence[Ask], lates: Sequence[int], base: int) -> bytes:
    """Write several claims. Their buckets are locked in the order in which a renewal locks them,
    so that no two transactions wait for each other: a call in a SELECT goes along its rows.
    """
    order = sorted(range(len(asks)), key=lambda place: _bucket(asks[place]))
    some = [asks[place] for place in order]
    shapes = [ask.shape for ask in some]
    arrays = ", ".join(
        [
            _numbers(order),
            f"{_names(some)}::pg_catalog.bytea[]",
            f"{_ids(some)}::pg_catalog.text[]",
            _numbers(shape.capacity for shape in shapes),
            _numbers(shape.weight for shape in shapes),
            _numbers(round(shape.ttl * 1e6) for shape in shapes),
            _numbers(round(shape.wait_ttl * 1e6) for shape in shapes),
            f"ARRAY[{', '.join('true' if ask.queue else 'false' for ask in some)}]",
            _numbers(lates[place] for place in order),
            f"ARRAY[{', '.join(_bytes(ask.payload) for ask in some)}]::pg_catalog.bytea[]",
        ]
    )
    return (
        "SELECT a.place, lockfast.claim_v1(a.name, a.id, a.capacity::pg_catalog.int4, "
        "a.weight::pg_catalog.int4, a.ttl, a.wait_ttl, a.queue, a.late, "
        # With several arrays this is syntax, which always means PostgreSQL's own `unnest`.
        f"{base:d}, a.payload) FROM unnest({arrays}) "
        "a(place, name, id, capacity, weight, ttl, wait_ttl, queue, late, payload)"
    ).encode()


def _numbers(numbers: Iterable[int]) -> str:
    return f"ARRAY[{', '.join(f'{number:d}' for number in numbers)}]::pg_catalog.int8[]"


def _bucket(ask: Ask) -> int:
    """Find a name's bucket, as bucket_v1 does."""
    digest = sha256(ask.shape.name.encode()).digest()
    return digest[0] % 4 * 256 + digest[1]


def renew(asks: Sequence[Ask]) -> bytes:
    """Write a renewal of all."""
    return f"SELECT lockfast.renew_v1({_names(asks)}, {_ids(asks)})".encode()


def resign(asks: Sequence[Ask], untils: Sequence[int] | None) -> bytes:
    """Write a resignation of all; with doubt, until when their tombstones must stand."""
    each = ["NULL"] * len(asks) if untils is None else [f"{until:d}" for until in untils]
    words = ",".join(each)
    return f"SELECT lockfast.resign_v1({_names(asks)}, {_ids(asks)}, '{{{words}}}')".encode()


def show_one(name: str) -> bytes:
    """Ask for the claims on one name."""
    return _show(_bytes(name.encode()), "NULL, NULL, NULL", SHOWN)


def show_page(prefix: str, cursor: str | None) -> bytes:
    """Ask for the next claims on names with that prefix, in the order of names and queues."""
    raw = prefix.encode()
    # No byte of UTF-8 is 0xff, so this is the first name behind all that have the prefix.
    below = _bytes(raw + bytes([255]))
    if cursor is None:
        return _show(_bytes(raw), f"{below}, NULL, NULL", PAGE)
    name, waits, ticket = cursor.split(" ")
    behind = f"{waits == 'waits'}, {int(ticket):d}"
    return _show(_bytes(bytes.fromhex(name)), f"{below}, {behind}", PAGE)


def _show(name: str, rest: str, most: int) -> bytes:
    return f"SELECT * FROM lockfast.show_v1({name}, {rest}, {most})".encode()


def claimed(row: Row, ask: Ask) -> tuple[int, Standing | None]:
    """Read the reply to a claim: the server's clock in µs, and the standing; None: it is dead."""
    words = _text(row).split(b" ")
    if len(words) == 2:  # noqa: PLR2004  # the clock, and the capacity that rules
        raise CapacityMismatch(ask.shape.name, ask.shape.capacity, int(words[1]))
    return int(words[0]), _standing(words, 1)


def renewed(row: Row) -> Iterator[tuple[int, int, Standing | None]]:
    """Read the reply to a renewal: each claim's place, the server's clock in µs, the standing."""
    for line in _text(row).splitlines():
        words = line.split(b" ")
        yield int(words[0]) - 1, int(words[1]), _standing(words, 2)


def resigned(row: Row) -> list[bool]:
    """Read the reply to a resignation: `{t,f}`."""
    return [letter == b"t" for letter in _text(row)[1:-1].split(b",")]


def entry(row: Row) -> Entry:
    """Read a row of `inspect`."""
    name, id_, ticket, granted, weight, capacity, left, payload = row
    return Entry(
        name=bytes.fromhex((name or b"").decode()).decode(),
        id=(id_ or b"").decode(),
        ticket=_int(ticket),
        granted=granted == b"t",
        weight=_int(weight),
        capacity=_int(capacity),
        left=_int(left) / 1e6,
        payload=bytes.fromhex((payload or b"").decode()),
    )


def after(row: Row) -> str:
    """Give the cursor behind a row of `inspect`."""
    return f"{(row[0] or b'').decode()} {'in' if row[3] == b't' else 'waits'} {_int(row[2])}"


def _standing(words: Sequence[bytes], start: int) -> Standing | None:
    """Read what follows there: nothing, six words of a holder, or ten of one that waits."""
    if len(words) == start:
        return None
    ticket, granted, left, ahead, behind, floor = words[start : start + 6]
    recheck, blocker = None, None
    if granted == b"f":
        following, head, head_ticket, payload = words[start + 6 :]
        recheck = None if following == b"-" else int(following) / 1e6
        blocker = Blocker(head.decode(), int(head_ticket), bytes.fromhex(payload.decode()))
    return Standing(
        int(ticket),
        granted == b"t",
        int(left) / 1e6,
        int(ahead),
        int(behind),
        int(floor),
        blocker,
        recheck,
    )


def _text(row: Row) -> bytes:
    return row[0] or b""


def _int(value: bytes | None) -> int:
    return int(value or 0)


def _bytes(raw: bytes) -> str:
    return f"E'\\\\x{raw.hex()}'"


def _id(ask: Ask) -> str:
    if not ask.id.isalnum():
        raise ValueError(f"not the id of a claim: {ask.id!r}")
    return ask.id


def _names(asks: Sequence[Ask]) -> str:
    words = ",".join([_name(ask.shape.name) for ask in asks])
    return f"E'{{{words}}}'"


@lru_cache(1024)
def _name(name: str) -> str:
    # Once for the string and once for the array, in which a backslash is one too.
    return f"\\\\\\\\x{name.encode().hex()}"


def _ids(asks: Sequence[Ask]) -> str:
    words = ",".join([_id(ask) for ask in asks])
    return f"'{{{words}}}'"
