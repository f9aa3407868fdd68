"""The ear of a client: waits for notes of its grants, on a connection that runs nothing else.

The server kills the ear's query to wake it, and finds the connection by a lock of GET_LOCK that
only this connection holds: see tell_v1 in schema.sql.
"""

from __future__ import annotations

from lockfast.engines.mysql import messages, replies
from lockfast.engines.mysql.failures import INTERRUPTED, failed
from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.results import Row, ServerError
from lockfast.engines.mysql.transport import Transport, late
from lockfast.engines.pushes import before, patience
from lockfast.errors import EngineUnavailable
from lockfast.port import EVERYONE, Wake
from lockfast.runtime.base import Clock

OVERDUE = 2.5  # seconds after which a query that sleeps for half a second must have been answered
NEVER = -1  # notes that a client has seen before its first look


class Ear:
    """The ear of one client. It connects when a claim of the client begins to wait."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        """Connect to nothing yet."""
        self._transport = transport
        self._now = clock
        self._link: Link | None = None
        self._seen = NEVER
        self._due = 0.0
        """When the query under way must have been answered. 0: none is under way."""

    async def listen(self, client: str, deadline: float | None) -> list[Wake]:
        """Wait for notes, for the bell or for the deadline, and return wakes."""
        try:
            if self._link is None:
                await self._open(client, patience(deadline, self._now()))
            return await self._listen(client, deadline)
        except BaseException:
            self.close()
            raise

    async def _open(self, client: str, deadline: float) -> None:
        link = self._link = await self._transport.open(deadline)
        self._seen, self._due = NEVER, 0.0
        # Whether it got the lock does not matter: without it, it hears at its next look.
        try:
            await self._transport.exchange(link, messages.hold_ear(client), deadline)
        except ServerError as error:
            raise failed(error.code, error.text, link.where) from error

    async def _listen(self, client: str, deadline: float | None) -> list[Wake]:
        link = self._link
        assert link is not None  # noqa: S101  # it was opened just now
        if not self._due:
            self._ask(link, client)
        while True:
            if not await self._transport.bell.wait(before(deadline, self._due), link.fileno()):
                if self._now() >= self._due:
                    raise late(link)
                return []
            try:
                rows, _ = link.receive()
            except ServerError as error:
                if error.code != INTERRUPTED:
                    raise failed(error.code, error.text, link.where) from error
                self._ask(link, client)  # there is a note now, so this is answered at once
            else:
                if rows is not None:
                    self._due = 0.0
                    return self._heard(rows, client)
                if self._now() >= self._due:  # a reply without an end
                    raise late(link)

    def _ask(self, link: Link, client: str) -> None:
        link.send(messages.ear(client, self._seen))
        self._due = self._now() + OVERDUE

    def _heard(self, rows: list[Row], client: str) -> list[Wake]:
        first = self._seen == NEVER
        try:
            self._seen, wakes = replies.heard(rows, client, 0 if first else self._seen)
        except (ValueError, TypeError, LookupError) as error:
            raise EngineUnavailable(f"the note cannot be read ({error})", sent=False) from error
        if wakes is None or first:  # notes from before the first look may be lost
            return [*(wakes or []), EVERYONE]
        return wakes

    def close(self) -> None:
        """Close the connection."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def reset(self) -> None:
        """Forget the connection, in a forked child."""
        link, self._link = self._link, None
        if link is not None:
            link.forget()
