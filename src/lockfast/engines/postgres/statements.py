"""Statements and rows: what is sent, and what comes back. No colour.

Nothing but numbers, ids and hexadecimal digits is ever written into a statement, so there is
nothing to quote. Isolation is set in front of each: in the same message, so it costs no round trip,
and it holds whatever the server's default is and whichever connection a pooler picks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from lockfast.engines.postgres.link import Row
from lockfast.errors import CapacityMismatch
from lockfast.port import Ask, Blocker, Entry, Standing

BEGIN = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; "
SHOWN = 1000  # claims of one lock that `inspect` shows
PAGE = 500
SHOW = (
    "SELECT encode(name, 'hex'), id, ticket, granted, weight, capacity, expires - clock, "
    "encode(payload, 'hex') "
    "FROM lockfast.claim, LATERAL (SELECT lockfast.micros_v1() AS clock) now WHERE expires > clock"
)


def claim(ask: Ask, late: int, base: int) -> bytes:
    """Write a claim; `late` is its latest time by the server's clock, in µs."""
    shape = ask.shape
    return (
        f"{BEGIN}SELECT * FROM lockfast.claim_v1({_bytes(shape.name.encode())}, '{_id(ask)}', "
        f"{shape.capacity:d}, {shape.weight:d}, {_micros(shape.ttl)}, {_micros(shape.wait_ttl)}, "
        f"{'true' if ask.queue else 'false'}, {late:d}, {base:d}, {_bytes(ask.payload)})"
    ).encode()


def claim_all(asks: Sequence[Ask], lates: Sequence[int], base: int) -> bytes:
    """Write several claims. Their buckets are locked in the order in which a renewal locks them,
    so that no two transactions wait for each other: a LATERAL call goes along its rows.
    """
    order = sorted(range(len(asks)), key=lambda place: _bucket(asks[place]))
    some = [asks[place] for place in order]
    shapes = [ask.shape for ask in some]
    arrays = ", ".join(
        [
            _numbers(order),
            _names(some),
            _ids(some),
            _numbers(shape.capacity for shape in shapes),
            _numbers(shape.weight for shape in shapes),
            _numbers(_micros(shape.ttl) for shape in shapes),
            _numbers(_micros(shape.wait_ttl) for shape in shapes),
            f"ARRAY[{', '.join('true' if ask.queue else 'false' for ask in some)}]",
            _numbers(lates[place] for place in order),
            f"ARRAY[{', '.join(_bytes(ask.payload) for ask in some)}]",
        ]
    )
    return (
        f"{BEGIN}SELECT a.place, c.* FROM unnest({arrays}) "
        "a(place, name, id, capacity, weight, ttl, wait_ttl, queue, late, payload), "
        "LATERAL lockfast.claim_v1(a.name, a.id, a.capacity::integer, a.weight::integer, a.ttl, "
        f"a.wait_ttl, a.queue, a.late, {base:d}, a.payload) c"
    ).encode()


def _numbers(numbers: Iterable[int]) -> str:
    return f"ARRAY[{', '.join(f'{number:d}' for number in numbers)}]::bigint[]"


def _bucket(ask: Ask) -> int:
    """Find a name's bucket, as bucket_v1 does."""
    digest = sha256(ask.shape.name.encode()).digest()
    return digest[0] % 4 * 256 + digest[1]


def renew(asks: Sequence[Ask]) -> bytes:
    """Write a renewal of all."""
    return f"{BEGIN}SELECT * FROM lockfast.renew_v1({_names(asks)}, {_ids(asks)})".encode()


def resign(asks: Sequence[Ask], untils: Sequence[int] | None) -> bytes:
    """Write a resignation of all; with doubt, until when their tombstones must stand."""
    each = ("NULL" for _ in asks) if untils is None else (f"{until:d}" for until in untils)
    return (
        f"{BEGIN}SELECT * FROM lockfast.resign_v1("
        f"{_names(asks)}, {_ids(asks)}, ARRAY[{', '.join(each)}]::bigint[])"
    ).encode()


def show_one(name: str) -> bytes:
    """Ask for the claims on one name."""
    return (
        f"{BEGIN}{SHOW} AND name = {_bytes(name.encode())} ORDER BY ticket LIMIT {SHOWN}"
    ).encode()


def show_page(prefix: str, cursor: str | None) -> bytes:
    """Ask for the next claims on names with that prefix, in the order of names and tickets."""
    raw = prefix.encode()
    start = f" AND name >= {_bytes(raw)}"
    # No byte of UTF-8 is 0xff, so this is the first name behind all that have the prefix.
    end = f" AND name < {_bytes(raw + bytes([255]))}"
    if cursor is not None:
        name, _, ticket = cursor.partition(" ")
        start = f" AND (name, ticket) > ({_bytes(bytes.fromhex(name))}, {int(ticket):d})"
    return f"{BEGIN}{SHOW}{start}{end} ORDER BY name, ticket LIMIT {PAGE}".encode()


def claimed(row: Row, ask: Ask) -> tuple[int, Standing | None]:
    """Read the reply to a claim: the server's clock in µs, and the standing; None: it is dead."""
    clock, ruling, *rest = row
    if ruling is not None:
        raise CapacityMismatch(ask.shape.name, ask.shape.capacity, int(ruling))
    return _int(clock), _standing(rest)


def renewed(row: Row) -> tuple[int, int, Standing | None]:
    """Read a row of a renewal: the claim's place, the server's clock in µs, the standing."""
    place, clock, *rest = row
    return _int(place) - 1, _int(clock), _standing(rest)


def resigned(row: Row) -> tuple[int, bool]:
    """Read a row of a resignation."""
    return _int(row[0]) - 1, row[1] == b"t"


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
    return f"{(row[0] or b'').decode()} {_int(row[2])}"


def _standing(row: Row) -> Standing | None:
    ticket, granted, left, ahead, behind, floor, recheck, head, head_ticket, payload = row
    if ticket is None:
        return None
    blocker = None
    if head is not None:
        blocker = Blocker(
            head.decode(), _int(head_ticket), bytes.fromhex((payload or b"").decode())
        )
    return Standing(
        ticket=int(ticket),
        granted=granted == b"t",
        left=_int(left) / 1e6,
        ahead=_int(ahead),
        behind=_int(behind),
        floor=_int(floor),
        blocker=blocker,
        recheck=None if recheck is None else int(recheck) / 1e6,
    )


def _int(value: bytes | None) -> int:
    return int(value or 0)


def _micros(seconds: float) -> int:
    return round(seconds * 1e6)


def _bytes(raw: bytes) -> str:
    return f"decode('{raw.hex()}', 'hex')"


def _id(ask: Ask) -> str:
    if not ask.id.isalnum():
        raise ValueError(f"not the id of a claim: {ask.id!r}")
    return ask.id


def _names(asks: Sequence[Ask]) -> str:
    return f"ARRAY[{', '.join(_bytes(ask.shape.name.encode()) for ask in asks)}]::bytea[]"


def _ids(asks: Sequence[Ask]) -> str:
    each = (f"'{_id(ask)}'" for ask in asks)
    return f"ARRAY[{', '.join(each)}]::text[]"
