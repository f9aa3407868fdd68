"""Reads the claims for `inspect`: on one name, or page by page on names with a prefix."""

from __future__ import annotations

import logging
from collections.abc import Collection
from itertools import groupby

from lockfast.engines.etcd import keys
from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.messages import RANGE, TIME_TO_LIVE, Slice, found, query, rows
from lockfast.engines.etcd.own_claims import OwnClaims
from lockfast.engines.etcd.protobuf import number, numbers
from lockfast.engines.etcd.session import seconds
from lockfast.engines.etcd.standing import granted
from lockfast.engines.etcd.transport import Transport
from lockfast.port import Entry, Page

log = logging.getLogger("lockfast")

PAGE = 500


async def one(transport: Transport, own: OwnClaims, base: int, name: str, deadline: float) -> Page:
    """Return the claims on a name."""
    prefix = keys.CLAIMS + keys.encoded(name) + b"/"
    reply = await transport.call(RANGE, query(prefix, keys.end(prefix)), deadline)
    every = rows(found(reply))
    if every and every[0].kind is None:
        raise keys.unreadable(every[0])  # to leave it out would show the name as free
    return Page(await _entries(transport, own, base, every, deadline), None)


async def page(  # noqa: PLR0913, PLR0917  # all that a page depends on
    transport: Transport, own: OwnClaims, base: int, names: str, cursor: str | None, deadline: float
) -> Page:
    """Return the claims on the next names with a prefix. A page has only whole queues, because the
    whole queue decides which of its claims are granted.
    """
    prefix = keys.CLAIMS + keys.encoded(names)
    start = bytes.fromhex(cursor) if cursor else prefix
    if not start.startswith(prefix):  # from there, the next cursor would tell other names and keys
        raise ValueError("a cursor outside the prefix")
    reply = found(
        await transport.call(RANGE, query(start, keys.end(prefix), Slice(limit=PAGE)), deadline)
    )
    every = rows(reply)
    more = None
    if len(reply.kvs) == PAGE:
        newest = max(key for key, *_ in reply.kvs)
        last = newest[: newest.rindex(b"/") + 1]
        if last == keys.CLAIMS:  # not a claim: the key has no part for a name
            more = (newest + b"\0").hex()
        else:
            rest = found(await transport.call(RANGE, query(last, keys.end(last)), deadline))
            every = [row for row in every if row.prefix != last] + rows(rest)
            more = keys.end(last).hex()
    formats = [keys.other_format(row) for row in every if row.kind is None]
    others = frozenset(each for each in formats if each is not None)
    entries = await _entries(transport, own, base, every, deadline)
    return Page(entries, more, others)


async def _entries(
    transport: Transport, own: OwnClaims, base: int, every: list[Row], deadline: float
) -> list[Entry]:
    """Return the entries of claims. A row that cannot be read is logged, and hides no other."""
    now = transport.now()
    # A client leaves out its own claims whose time is over. Others see them until the deletion.
    shown = [
        row
        for row in every
        if not own.over(row) and ((mine := own.of(row)) is None or mine.until > now)
    ]
    shown.sort(key=lambda row: (row.prefix, row.revision))
    # Looked up once: another thread may end one of ours during the request that follows.
    ours = {row.id: mine for row in shown if (mine := own.of(row)) is not None}
    times = await _times_to_live(
        transport,
        {row.lease for row in shown if row.kind is not None and row.id not in ours},
        deadline,
    )
    entries = []
    for _, group in groupby(shown, key=lambda row: row.prefix):
        queue = list(group)
        holders = granted(queue)
        for place, row in enumerate(queue):
            if row.kind is None:
                log.warning("%s", keys.unreadable(row))
                continue
            mine = ours.get(row.id)
            entries.append(
                Entry(
                    name=row.name,
                    id=row.id,
                    ticket=row.revision + base,
                    granted=place < holders,
                    kind=row.kind,
                    weight=row.weight,
                    capacity=row.capacity,
                    left=_left(row, *times[row.lease]) if mine is None else mine.until - now,
                    payload=row.payload,
                )
            )
    return entries


async def _times_to_live(
    transport: Transport, leases: Collection[int], deadline: float
) -> dict[int, tuple[int, int]]:
    """Return how many seconds each lease has left, and how many etcd granted. All are asked about
    at once: a client has one for each ttl.
    """
    asked = [number(1, lease) for lease in leases]
    told = map(numbers, await transport.call_all(TIME_TO_LIVE, asked, deadline))
    return {
        lease: (said.get(3, 0), said.get(4, 0)) for lease, said in zip(leases, told, strict=True)
    }


def _left(row: Row, left: int, whole: int) -> float:
    """Return how many seconds another client's claim has left, at most. etcd counts whole seconds,
    rounded down. The lease may be longer than the claim's ttl, which the claim's client enforces.
    """
    if left < 0:  # the lease has expired, and etcd is about to delete it
        return 0.0
    life = row.ttl if whole >= seconds(row.ttl) else row.wait_ttl
    return min(max(life - (whole - (left + 1)), 0.0), life)
