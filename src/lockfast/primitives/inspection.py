"""The overview of an engine: every claim there is, which of them wait in circles, and the force to
end one that is another's.
"""

from __future__ import annotations

import logging
import re
from itertools import groupby
from typing import NamedTuple

from lockfast.breaks import Break
from lockfast.claims import payload
from lockfast.claims.break_records import history, written
from lockfast.claims.session import IO, Session
from lockfast.core.wait_graph import Waits
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.names import checked, size_of
from lockfast.plain import plain
from lockfast.port import LONGEST_WAIT, Ask, Entry, Page, Shape
from lockfast.primitives.lock import Holder

log = logging.getLogger("lockfast")
CLAIM = re.compile("[0-9A-Za-z]{32}")


class Tie(NamedTuple):
    """One step of a circle: who waits, and whose claim ahead of it is the next one's."""

    waiting: Holder
    blocker: Holder

    def __str__(self) -> str:
        """Say it in words."""
        does = "holds" if self.blocker.granted else "waits for before it"
        return (
            f"{self.waiting.who} waits for {self.waiting.name!r}, which {self.blocker.who} {does}"
        )


async def every(session: Session, prefix: str) -> list[Holder]:
    """Show all claims on names with a prefix, by name and in the order of the queue."""
    size_of(prefix, "a prefix")
    return [Holder(entry) for entry in await _entries(session, prefix)]


async def _entries(session: Session, prefix: str) -> list[Entry]:
    """Read page after page. A page may show again what another has shown."""
    session.enter()
    found: dict[str, Entry] = {}
    cursor: str | None = None
    while True:
        page = await _page(session, prefix, cursor)
        found.update((entry.id, entry) for entry in page.entries)
        cursor = page.cursor
        if cursor is None:
            return sorted(found.values(), key=_place)


def _place(entry: Entry) -> tuple[str, bool, int]:
    return entry.name, not entry.granted, entry.ticket


async def _page(session: Session, prefix: str, cursor: str | None) -> Page:
    try:
        return await session.engine.inspect(prefix, cursor, exact=False)
    except EngineUnavailable:  # a connection that ended while nobody used it; reading is free
        return await session.engine.inspect(prefix, cursor, exact=False)


async def circles(session: Session) -> list[list[Tie]]:
    """Find all waits that can never end. As with a waiter's own search, what is there in two
    readings was there in between; what is in one alone may never have been.
    """
    first = _circles(await _entries(session, ""))
    if not first:
        return []
    again = _circles(await _entries(session, ""))
    return [circle for ids, circle in again.items() if ids in first]


def _circles(entries: list[Entry]) -> dict[frozenset[tuple[str, str]], list[Tie]]:
    queues = {name: list(queue) for name, queue in groupby(entries, key=lambda each: each.name)}
    waiting = [entry for entry in entries if not entry.granted]
    waits = Waits(queues, {entry.id: payload.holding(entry.payload) for entry in waiting})
    found: dict[frozenset[tuple[str, str]], list[Tie]] = {}
    seen: set[str] = set()
    for entry in waiting:
        if entry.id not in seen:
            circle = waits.circle(entry.id)
            ties = [Tie(Holder(link.waiting), Holder(link.blocker)) for link in circle]
            seen.update(tie.waiting.id for tie in ties)
            if ties:
                found[frozenset((tie.waiting.id, tie.blocker.id) for tie in ties)] = ties
    return found


async def broken(session: Session, name: str) -> list[Break]:
    """Return who broke a lock, the last first."""
    session.enter()
    return history(await session.engine.records(checked(name), session.runtime.now() + IO))


async def revoke(session: Session, holder: Holder, reason: str) -> bool:
    """End a claim, whoever has it. False if it was over already.

    The engine is told that a copy of it may be on its way: nobody here can know. Only what was
    really ended is recorded. If the record cannot be written, that is logged: a store that is full
    must not keep an operator from breaking a lock.
    """
    session.enter()
    if not CLAIM.fullmatch(holder.id):  # an engine may send it as it is
        raise EngineRefused(f"{holder.name!r}: {holder.id!r} is not the id of a claim of lockfast")
    shape = Shape(holder.name, LONGEST_WAIT, holder.capacity, holder.weight)
    record = written(holder.id, holder.ticket, reason)
    now = session.runtime.now()
    ask = Ask(holder.id, shape, queue=True, not_after=now + shape.wait_ttl, payload=b"")
    (removed,) = await session.engine.resign((ask,), now + IO, doubt=True)
    if removed:
        log.warning("%r was taken from %s: %s", holder.name, holder.who, plain(reason))
        try:
            end = session.runtime.now() + IO
            await session.engine.record(holder.name, holder.id, record, end)
        except EngineError as error:
            log.warning("%r was broken, but who did it could not be stored: %s", holder.name, error)
    return removed
