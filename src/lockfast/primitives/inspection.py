"""Inspection of an engine: list all claims, find deadlocks, break the lock of another client."""

from __future__ import annotations

import logging
import re
from itertools import groupby
from typing import NamedTuple, Self

from lockfast.breaks import Break
from lockfast.claims import payload
from lockfast.claims.break_records import history, written
from lockfast.claims.session import IO, Session
from lockfast.core.record import FORMAT
from lockfast.core.wait_graph import circles
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.guarantees import Guarantees
from lockfast.names import checked, size_of
from lockfast.plain import plain
from lockfast.port import LONGEST_WAIT, Ask, Entry, Page, Shape
from lockfast.primitives.lock import Holder

log = logging.getLogger("lockfast")
CLAIM = re.compile("[0-9A-Za-z]{32}")


class Tie(NamedTuple):
    """One step of a deadlock: a waiting claim, and the claim ahead of it that blocks it.

    The owner of the blocker waits in the next step, and that of the last step in the first.
    """

    waiting: Holder
    """The claim that waits."""
    blocker: Holder
    """The claim ahead of it, which is held or waits for its turn."""

    def __str__(self) -> str:
        """Return the step in words."""
        does = "holds" if self.blocker.granted else "waits for ahead of it"
        return (
            f"{self.waiting.who} waits for {self.waiting.name!r}, which {self.blocker.who} {does}"
        )


class Inspecting:
    """The part of a client that looks at the engine, and breaks locks."""

    _session: Session

    async def _inspect(self, prefix: str = "") -> list[Holder]:
        """Return the holders and waiters of all locks whose names begin with a prefix.

        Args:
            prefix: The beginning of the names. An empty prefix lists all locks of the engine.

        Returns:
            The holders and waiters, sorted by name, and within a name in the order of the queue.
            The list is read in pages. A claim that changes meanwhile may appear in its old state,
            or not at all.

        Raises:
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.
            TypeError: The prefix is not a str.
            ValueError: The prefix is not valid Unicode text.
        """
        size_of(prefix, "a prefix")
        return [Holder(entry) for entry in await _entries(self._session, prefix)]

    async def _deadlocks(self) -> list[list[Tie]]:
        """Return all present deadlocks, among all clients of the engine.

        Returns:
            A list of ties for each deadlock, which form a cycle. A wait in such a cycle can never
            end by itself.

        Raises:
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.
        """
        # Queues are read one by one, so a cycle that one reading shows may never have existed. One
        # that two readings show did exist in between, as in a waiter's own search
        # (`claims.deadlock`).
        first = _circles(await _entries(self._session, ""))
        if not first:
            return []
        again = _circles(await _entries(self._session, ""))
        return [circle for ids, circle in again.items() if ids in first]

    async def _breaks(self, name: str) -> list[Break]:
        """Return who broke a lock, when and why.

        Args:
            name: The name of the lock.

        Returns:
            The last 16 records, the newest first. The engine keeps records for a day. ZooKeeper
            keeps at most the last 64 records of a group of names.

        Raises:
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.
            TypeError: The name is not a str.
            ValueError: The name is not valid.
        """
        self._session.enter()
        deadline = self._session.runtime.now() + IO
        return history(await self._session.engine.records(checked(name), deadline))

    async def _revoke(self, holder: Holder, reason: str, *, by: str | None = None) -> bool:
        """Break a lock: remove the claim of a holder or waiter.

        The old holder notices this at its next renewal. Until then it may still write, and only a
        guard rejects that.

        Args:
            holder: A result of `inspect`, or of a lock's `holders` or `queue`.
            reason: Stored together with who broke the lock. `breaks` returns it, and the old holder
                finds it in `LeaseLost`.
            by: Who breaks the lock, such as the user of an interface that calls this. None: your
                user name, host and process id.

        Returns:
            True if this call removed the claim, and False if it was gone already.

        Raises:
            EngineError: The engine cannot be reached, or it rejects the request. If
                `EngineUnavailable.sent` is True, the claim may have been removed.
            ClientClosed: The client was closed.
            TypeError: The holder is no `Holder`, or the reason or `by` is not a str.
        """
        session = self._session
        session.enter()
        if not isinstance(holder, Holder):
            raise TypeError(
                f"revoke() needs a Holder, not {type(holder).__name__}: use one that inspect(), or "
                "holders() of a lock, has returned"
            )
        if not CLAIM.fullmatch(holder.id):  # an engine may put the id into a command unchecked
            raise EngineRefused(
                f"{holder.name!r}: {holder.id!r} is not the id of a claim of lockfast"
            )
        shape = Shape(holder.name, LONGEST_WAIT, holder.kind, holder.capacity, holder.weight)
        record = written(holder.id, holder.ticket, reason, by)
        now = session.runtime.now()
        ask = Ask(holder.id, shape, queue=True, not_after=now + shape.wait_ttl, payload=b"")
        # The engine leaves a tombstone (`doubt`), because only the other client knows whether a
        # copy of its claim is still under way.
        (removed,) = await session.engine.resign((ask,), now + IO, doubt=True)
        if isinstance(removed, Exception):
            raise removed
        if removed:
            log.warning("%r was taken from %s: %s", holder.name, holder.who, plain(reason))
            await _record(session, holder, record)
        return removed

    async def _guarantees(self) -> Guarantees:
        """Read the setup of the live server, and return what the engine guarantees with it.

        Returns:
            The level, the faults that it survives, and the settings that weaken it.

        Raises:
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.
        """
        return await self._session.guarantees()


async def _record(session: Session, holder: Holder, record: bytes) -> None:
    """Store the record of a break. If that fails, only log it: a full store must not keep an
    operator from breaking a lock.
    """
    try:
        end = session.runtime.now() + IO
        await session.engine.record(holder.name, holder.id, record, end)
    except EngineError as error:
        log.warning(
            "%r was broken, but the record of the break could not be stored: %s", holder.name, error
        )


async def _entries(session: Session, prefix: str) -> list[Entry]:
    """Return the entries of all pages. Two pages may contain the same claim: the later counts."""
    found: dict[str, Entry] = {}
    async for page in Pages(session, prefix):
        found.update((entry.id, entry) for entry in page.entries)
    return sorted(found.values(), key=_place)


async def formats(session: Session) -> set[int]:
    """Return the formats in which the engine's live claims are stored."""
    found: set[int] = set()
    async for page in Pages(session):
        found |= page.others | ({FORMAT} if page.entries else set())
    return found


class Pages:
    """The claims of all locks whose names begin with a prefix, page by page.

    Not an async generator: without an event loop, nobody would end one that was left early.
    """

    def __init__(self, session: Session, prefix: str = "") -> None:
        """Read nothing yet."""
        session.enter()
        self._session = session
        self._prefix = prefix
        self._cursor: str | None = None
        self._ended = False

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> Page:
        """Read the next page."""
        if self._ended:
            raise StopAsyncIteration
        page = await _page(self._session, self._prefix, self._cursor)
        self._cursor = page.cursor
        self._ended = page.cursor is None
        return page


def _place(entry: Entry) -> tuple[str, bool, int]:
    return entry.name, not entry.granted, entry.ticket


async def _page(session: Session, prefix: str, cursor: str | None) -> Page:
    try:
        return await session.engine.inspect(prefix, cursor, exact=False)
    except EngineUnavailable:  # the connection died while it was idle. Reading twice is harmless
        return await session.engine.inspect(prefix, cursor, exact=False)


def _circles(entries: list[Entry]) -> dict[frozenset[tuple[str, str]], list[Tie]]:
    queues = {name: list(queue) for name, queue in groupby(entries, key=lambda each: each.name)}
    holding = {each.id: payload.holding(each.payload) for each in entries if not each.granted}
    return {
        ids: [Tie(Holder(link.waiting), Holder(link.blocker)) for link in circle]
        for ids, circle in circles(queues, holding).items()
    }
