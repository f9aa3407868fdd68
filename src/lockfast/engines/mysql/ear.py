"""The ear of a client: waits for notes of its grants, on a connection that runs nothing else.

The server kills the ear's query to wake it, and finds the connection by a lock of GET_LOCK that
only this connection holds: see the part KILL in parts.sql. A second query follows each one that
waits. When the first is killed, the server has read the second already, and answers it at once. To
ask only then would cost a round trip in every handover.
"""

from __future__ import annotations

import secrets

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
NEVER = -1  # in place of the notes that were read: answer at once
BOTH = 2  # queries: one that waits, and one behind it


class Ear:
    """The ear of one client. It connects when a claim of the client begins to wait."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        """Connect to nothing yet."""
        self._transport = transport
        self._now = clock
        self._link: Link | None = None
        self._seen = 0
        """How many notes it has read. A new connection goes on there, or it would wake claims again
        that were woken long ago."""
        self._fresh = True
        """Whether the connection has not looked yet."""
        self._held = False
        """Whether the connection holds the client's lock of GET_LOCK."""
        self._sent = 0
        """How many queries are under way."""
        self._due = 0.0
        """When the first of these must have been answered."""

    async def listen(self, client: str, deadline: float | None) -> list[Wake]:
        """Wait for notes, for the bell or for the deadline, and return wakes."""
        try:
            if self._link is None:
                await self._open(patience(deadline, self._now()))
            return await self._listen(client, deadline)
        except BaseException:
            self.close()
            raise

    async def _open(self, deadline: float) -> None:
        self._link = await self._transport.open(deadline)
        self._fresh, self._sent, self._held = True, 0, False

    async def _listen(self, client: str, deadline: float | None) -> list[Wake]:
        link = self._link
        assert link is not None  # noqa: S101  # it was opened just now
        if not self._held and not self._sent:
            # The last connection may still have the lock, if it broke. Until it is gone, grants are
            # heard at the next look.
            until = patience(deadline, self._now())
            self._held = await _hold(self._transport, link, client, until)
        self._ask(link, client)
        while True:
            if not await self._transport.bell.wait(before(deadline, self._due), link.fileno()):
                if self._now() >= self._due:
                    raise late(link)
                return []
            rows = self._receive(link)
            if rows is not None:
                return self._heard(rows, client)
            # After a kill, the answer of the second query is about to come. To send another one
            # first would delay it.
            if not self._sent:
                self._ask(link, client)
            if self._now() >= self._due:  # a reply without an end
                raise late(link)

    def _ask(self, link: Link, client: str) -> None:
        """Send queries until as many are under way as there should be. The first look of a
        connection is answered at once, so nothing follows it.
        """
        if not self._sent:
            self._due = self._now() + OVERDUE
        while self._sent < (BOTH if self._held and not self._fresh else 1):
            query = messages.ear(client, NEVER if self._fresh else self._seen)
            link.send(query, behind=self._sent > 0)
            self._sent += 1

    def _receive(self, link: Link) -> list[Row] | None:
        """Return the rows of the next query that was answered. None: they have not arrived yet."""
        while self._sent:
            try:
                rows, _ = link.receive()
            except ServerError as error:
                if error.code != INTERRUPTED:
                    raise failed(error.code, error.text, link.where) from error
                self._answered()
            else:
                if rows is not None:
                    self._answered()
                return rows
        return None

    def _answered(self) -> None:
        self._sent -= 1
        self._due = self._now() + OVERDUE

    def _heard(self, rows: list[Row], client: str) -> list[Wake]:
        fresh, self._fresh = self._fresh, False
        try:
            self._seen, wakes = replies.heard(rows, client, self._seen)
        except (ValueError, TypeError, LookupError) as error:
            raise EngineUnavailable(f"the note cannot be read ({error})", sent=False) from error
        if wakes is None or fresh:  # notes from before may be lost, also by a failover
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


async def _hold(transport: Transport, link: Link, client: str, deadline: float) -> bool:
    """Take the lock by which the server finds a client's connection, and return whether it was
    free.
    """
    try:
        return await transport.exchange(link, messages.hold_ear(client), deadline) == [[b"1"]]
    except ServerError as error:
        raise failed(error.code, error.text, link.where) from error


async def deaf(transport: Transport, deadline: float) -> str:
    """Try whether the server can wake this user's clients. Return the account that may not do
    that, or an empty text.
    """
    client = secrets.token_hex(messages.CLIENT // 2)
    link = await transport.open(deadline)
    try:
        await _hold(transport, link, client, deadline)
        return await transport.call(messages.wake(client), deadline, replies.woken)
    finally:
        link.close()
