"""What `inspect` shows: the claims on a name, or on all names with a prefix, page by page."""

from __future__ import annotations

from itertools import groupby

from lockfast.engines.etcd import keys
from lockfast.engines.etcd.codec import number, numbers
from lockfast.engines.etcd.holdings import Holdings
from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.messages import RANGE, TIME_TO_LIVE, Slice, found, query, rows
from lockfast.engines.etcd.sessions import seconds
from lockfast.engines.etcd.standings import granted
from lockfast.engines.etcd.wire import Wire
from lockfast.port import Entry, Page

PAGE = 500


async def one(wire: Wire, holdings: Holdings, base: int, name: str, deadline: float) -> Page:
    """Show the claims on a name."""
    prefix = keys.CLAIMS + keys.encoded(name) + b"/"
    reply = await wire.call(RANGE, query(prefix, keys.end(prefix)), deadline)
    return Page(await _entries(wire, holdings, base, rows(found(reply)), deadline), None)


async def page(  # noqa: PLR0913, PLR0917  # all that a page depends on
    wire: Wire, holdings: Holdings, base: int, names: str, cursor: str | None, deadline: float
) -> Page:
    """Show the claims on the next names with a prefix: whole queues, since who holds is a matter
    of the whole.
    """
    prefix = keys.CLAIMS + keys.encoded(names)
    start = bytes.fromhex(cursor) if cursor else prefix
    reply = found(
        await wire.call(RANGE, query(start, keys.end(prefix), Slice(limit=PAGE)), deadline)
    )
    every = rows(reply)
    more = None
    if len(every) == PAGE:
        last = max(every).prefix
        rest = found(await wire.call(RANGE, query(last, keys.end(last)), deadline))
        every = [row for row in every if row.prefix != last] + rows(rest)
        more = keys.end(last).hex()
    return Page(await _entries(wire, holdings, base, every, deadline), more)


async def _entries(
    wire: Wire, holdings: Holdings, base: int, every: list[Row], deadline: float
) -> list[Entry]:
    now = wire.now()
    times: dict[int, tuple[int, int]] = {}
    entries = []
    ordered = sorted(every, key=lambda row: (row.prefix, row.revision))
    for _, group in groupby(ordered, key=lambda row: row.prefix):
        # What its own client knows to be over is left out; others see it until it is deleted.
        queue = [row for row in group if (mine := holdings.get(row.id)) is None or mine.until > now]
        holders = granted(queue)
        for place, row in enumerate(queue):
            mine = holdings.get(row.id)
            if mine is not None:
                left = mine.until - now
            else:
                if row.lease not in times:
                    times[row.lease] = await _time_to_live(wire, row.lease, deadline)
                left = _left(row, *times[row.lease])
            entries.append(
                Entry(
                    name=row.name,
                    id=row.id,
                    ticket=row.revision + base,
                    granted=place < holders,
                    weight=row.weight,
                    capacity=row.capacity,
                    left=left,
                    payload=row.payload,
                )
            )
    return entries


async def _time_to_live(wire: Wire, lease: int, deadline: float) -> tuple[int, int]:
    """Ask how many seconds a lease has left, and how many it had."""
    said = numbers(await wire.call(TIME_TO_LIVE, number(1, lease), deadline))
    return said.get(3, 0), said.get(4, 0)


def _left(row: Row, left: int, whole: int) -> float:
    """Tell what another's claim has left. etcd counts in whole seconds, and rounds down; the
    lease may be longer than the claim's own time, which its own client minds.
    """
    if left < 0:  # it is over, and about to be deleted
        return 0.0
    life = row.ttl if whole >= seconds(row.ttl) else row.wait_ttl
    return min(max(life - (whole - (left + 1)), 0.0), life)
