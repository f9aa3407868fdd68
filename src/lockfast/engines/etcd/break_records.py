"""The records of breaks: each is a key on a lease of its own, which removes it after a day."""

from __future__ import annotations

from lockfast.engines.etcd import keys
from lockfast.engines.etcd.messages import (
    CREATE,
    DESCENDING,
    EQUAL,
    GRANT,
    RANGE,
    TXN,
    Slice,
    compare,
    done,
    found,
    put,
    query,
    txn,
)
from lockfast.engines.etcd.protobuf import Malformed, number, numbers
from lockfast.engines.etcd.transport import Transport
from lockfast.port import RECORDS, REMEMBERED

NEWEST = Slice(limit=RECORDS, order=DESCENDING)


async def keep(transport: Transport, name: str, claim: str, record: bytes, deadline: float) -> None:
    """Store a record: grant a lease of a day, and put a key on it."""
    lease = numbers(await transport.call(GRANT, number(1, int(REMEMBERED)), deadline)).get(2, 0)
    if lease == 0:
        raise Malformed("a lease without a number")
    key = _prefix(name) + claim.encode()
    new = compare(CREATE, EQUAL, 0, key)  # only the first record of a claim is kept
    done(await transport.call(TXN, txn(new, [put(key, record, lease)], []), deadline))


async def read(transport: Transport, name: str, deadline: float) -> list[bytes]:
    """Return the newest records of a name, the newest first."""
    prefix = _prefix(name)
    reply = found(await transport.call(RANGE, query(prefix, keys.end(prefix), NEWEST), deadline))
    return [value for *_, value in reply.kvs]


def _prefix(name: str) -> bytes:
    return keys.BREAKS + keys.encoded(name) + b"/"
