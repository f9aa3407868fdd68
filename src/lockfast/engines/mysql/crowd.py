"""The ear of many clients: waits for notes of their grants, on one connection.

It differs from the ear of one client in three points. The connection holds the lock of every client
that has waited on it. Its query looks into the slots of all clients that wait. And no second query
follows: the next one may have to look into more slots.

A client that waits for the first time gets its lock at once, although a query is under way: the
connection is woken like any other, by the name of a client that it has the lock of.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

from lockfast.engines.mysql import messages, replies
from lockfast.engines.mysql.failures import INTERRUPTED, failed
from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.results import Row, ServerError
from lockfast.engines.mysql.transport import Transport, late
from lockfast.engines.mysql.waiting import Waiting
from lockfast.engines.pushes import before, patience
from lockfast.engines.sql.hearing import Hearing
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.port import CLIENT, EVERYONE, Wake, everyone_of
from lockfast.runtime.base import Clock

OVERDUE = 2.5  # seconds after which a query that sleeps for half a second must have been answered
CHUNK = 96  # locks that one statement takes: a packet of 16 KiB has room for it
AGAIN = 0.5  # seconds until the next try, if another connection has the lock of a client
NEVER = -1  # in place of the notes that were read of a slot: answer at once


class Crowd:
    """The ear of many clients. It connects when a claim of one of them begins to wait."""

    def __init__(self, transport: Transport, clock: Clock, hearing: Hearing) -> None:
        """Connect to nothing yet. `hearing`: the clients."""
        self.waiting = Waiting(clock)
        self._transport = transport
        self._now = clock
        self._hearing = hearing
        self._link: Link | None = None
        self._seen: dict[int, int] = {}
        """How many notes of each slot it has read."""
        self._asked: dict[int, int] = {}
        """The same for the query that is under way."""
        self._held: dict[str, None] = {}
        """The clients of which the connection has the lock."""
        self._wanted: dict[str, None] = {}
        """Those that wait, and of which it should take the lock now."""
        self._taken: dict[str, float] = {}
        """Those of which another connection has it, and when to try again. It may be that of
        another replica, or one of ours that broke. Until it is gone, grants are heard at the next
        look."""
        self._left: dict[str, None] = {}
        """Those that it need not hear any more."""
        self._fresh = True
        """Whether the connection has not told yet that wakes may have been missed."""
        self._busy = False
        """Whether a query is under way."""
        self._woken = False
        """Whether it was woken to make room for more locks."""
        self._due = 0.0
        """When it must have been answered."""

    def knows(self, client: str) -> bool:
        """Return whether a grant of a client would be heard at once."""
        return client in self._held

    def come(self, client: str) -> None:
        """Take the lock of a client again that had left, and has a claim that still waits."""
        if self._waits(client) and client not in self._held:
            self._wanted[client] = None

    def leave(self, client: str) -> None:
        """Give the lock of a client back, for another replica."""
        self._left[client] = None

    def _waits(self, client: str) -> bool:
        return client in self.waiting.slots.get(messages.slot(client), {})

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait for notes, for the bell or for the deadline, and return wakes."""
        self.waiting.catch_up()
        try:
            soon = patience(deadline, self._now())
            if self._link is None:
                self._link = await self._transport.open(soon)
                waiting = self.waiting.clients()
                self._wanted = dict.fromkeys(each for each in waiting if each in self._hearing)
            return await self._listen(self._link, deadline, soon)
        except BaseException:
            self.close()
            raise

    async def _listen(self, link: Link, deadline: float | None, soon: float) -> list[Wake]:
        while True:
            self.waiting.catch_up()
            self._want()
            if self._busy:
                await self._make_room(soon)
            elif not await self._hold(link, soon):
                return []
            elif self._fresh:
                self._fresh = False
                return [EVERYONE]
            else:
                self._ask(link)
            if not await self._transport.bell.wait(before(deadline, self._due), link.fileno()):
                if self._now() >= self._due:
                    raise late(link)
                return []
            rows = self._receive(link)
            if rows is not None:
                return self._heard(rows)
            if self._now() >= self._due:  # a reply without an end
                raise late(link)

    def _want(self) -> None:
        """Note clients that have begun to wait."""
        while self.waiting.new:
            client, _ = self.waiting.new.popitem()
            if (
                client in self._hearing  # or it left while its claim was under way
                and client not in self._held
                and client not in self._taken
            ):
                self._wanted[client] = None

    async def _make_room(self, deadline: float) -> None:
        """End the query that is under way, if there are locks to take."""
        known = next(iter(self._held), None)
        if known is not None and self._wanted and not self._woken:
            self._woken = True
            with suppress(EngineError):  # the query ends by itself soon
                await self._transport.call(
                    messages.wake(known), deadline, replies.woken, heart=True
                )

    async def _hold(self, link: Link, deadline: float) -> bool:
        """Take the locks of the clients that wait, and give back those of clients that have left.
        Return False if there are more of them than there is time for.
        """
        if not await self._give_back(link, deadline):
            return False
        self._try_again()
        while self._wanted:
            some = list(islice(self._wanted, CHUNK))
            rows = await self._try(link, messages.hold_ears(some), deadline)
            if rows is None:
                return False
            for client, held in zip(some, replies.held(rows, len(some)), strict=True):
                del self._wanted[client]
                if held:
                    self._held[client] = None
                else:
                    self._taken[client] = self._now() + AGAIN
            if self._wanted and self._now() >= deadline:
                return False
        return True

    async def _give_back(self, link: Link, deadline: float) -> bool:
        """Give back the locks of clients that have left. Return False if it was interrupted."""
        while self._left:
            some = [each for each in islice(self._left, CHUNK) if each not in self._hearing]
            held = [each for each in some if each in self._held]
            if held and await self._try(link, messages.leave_ears(held), deadline) is None:
                return False
            for client in list(islice(self._left, CHUNK)):
                del self._left[client]
            for client in some:
                for clients in (self._held, self._wanted, self._taken):
                    clients.pop(client, None)
        return True

    def _try_again(self) -> None:
        """Want the locks again that another connection had. The first of them is due first."""
        while self._taken:
            client = next(iter(self._taken))
            if self._taken[client] > self._now():
                return
            del self._taken[client]
            if self._waits(client):
                self._wanted[client] = None

    async def _try(self, link: Link, sql: bytes, deadline: float) -> list[Row] | None:
        """Run a statement. None if somebody woke the connection meanwhile: it can be repeated."""
        try:
            return await self._transport.exchange(link, sql, deadline)
        except ServerError as error:
            if error.code != INTERRUPTED:
                raise failed(error.code, error.text, link.where) from error
            return None

    def _ask(self, link: Link) -> None:
        self._asked = {slot: self._seen.get(slot, NEVER) for slot in self.waiting.slots}
        link.send(messages.ears(self._asked))
        self._busy, self._woken, self._due = True, False, self._now() + OVERDUE

    def _receive(self, link: Link) -> list[Row] | None:
        """Return the rows of the query. None: they have not arrived yet, or it was ended."""
        try:
            rows, _ = link.receive()
        except ServerError as error:
            if error.code != INTERRUPTED:
                raise failed(error.code, error.text, link.where) from error
            self._busy = False
            return None
        self._busy = rows is None
        return rows

    def _heard(self, rows: list[Row]) -> list[Wake]:
        try:
            found = replies.overheard(rows, self._hearing, self._asked)
        except (ValueError, TypeError, LookupError) as error:
            raise EngineUnavailable(f"the notes cannot be read ({error})", sent=False) from error
        wakes: list[Wake] = []
        for slot, count, heard, complete in found:
            self._seen[slot] = count
            waiting = self.waiting.slots.get(slot, {})
            if self._asked[slot] != NEVER:
                wakes += heard
            else:  # most of these notes are of claims that have ended
                known = [wake for wake in heard if wake.id in waiting.get(wake.id[:CLIENT], {})]
                others = {wake.id[:CLIENT] for wake in heard if wake not in known}
                # But a reply may be still to come, of a claim that was granted meanwhile.
                wakes += [*known, *map(everyone_of, others)]
            if not complete:
                wakes += map(everyone_of, waiting)
        return wakes

    def close(self) -> None:
        """Close the connection."""
        link, self._link = self._link, None
        self._forget()
        if link is not None:
            link.close()

    def reset(self) -> None:
        """Forget the connection, in a forked child."""
        link, self._link = self._link, None
        self._forget()
        if link is not None:
            link.forget()

    def _forget(self) -> None:
        self._held, self._wanted, self._taken, self._left = {}, {}, {}, {}
        self._fresh, self._busy = True, False
