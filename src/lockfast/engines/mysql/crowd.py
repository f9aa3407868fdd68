"""The ear of many clients: waits for notes of their grants, on one connection.

It differs from the ear of one client in three points. The connection holds the lock of every client
that has waited on it. Its query looks into the slots of all clients that wait. And no second query
follows: the next one may have to look into more slots.

A client that waits for the first time gets its lock at once, although a query is under way: the
connection is woken like any other, by the name of a client that it has the lock of.

A statement may be answered in a later call of `listen` than the one that sent it, also one that
takes locks. A heart with many claims calls it for moments only, in which thousands of clients would
never all get their locks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
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

Read = Callable[[list[Row]], list[Wake]]
"""Takes in the rows of a statement, and returns the wakes in them."""
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
        """How many notes of each slot it has read on this connection. The next one may be to
        another server with fewer of them, where new notes would look like those that were read."""
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
        self._read: Read | None = None
        """Reads the reply to the statement that is under way. None: no statement is."""
        self._woken = False
        """Whether that ends soon: it was woken to make room for more locks, or does not sleep."""
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
        self.waiting.catch_up()
        self._want()
        if self._read is not None:
            await self._make_room(soon)
        elif not self._hold(link):
            if self._fresh:
                self._fresh = False
                return [EVERYONE]
            self._ask(link)
        wakes = list[Wake]()
        if await self._transport.bell.wait(before(deadline, self._due), link.fileno()):
            wakes = self._receive(link)
        if self._read is not None and self._now() >= self._due:  # or a reply without an end
            raise late(link)
        return wakes

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

    def _hold(self, link: Link) -> bool:
        """Send a statement that gives back locks of clients that have left, or one that takes locks
        of clients that wait. Return False if there is nothing to do.
        """
        for client in list(self._left):
            if client in self._hearing:  # it came back
                del self._left[client]
            elif client not in self._held:
                self._drop(client)
        if some := list(islice(self._left, CHUNK)):
            self._send(link, messages.leave_ears(some), partial(self._given_back, some))
            return True
        self._try_again()
        if some := list(islice(self._wanted, CHUNK)):
            self._send(link, messages.hold_ears(some), partial(self._answered, some))
        return bool(some)

    def _given_back(self, some: list[str], _: list[Row]) -> list[Wake]:
        for client in some:
            self._drop(client)
            if client in self._hearing:  # it came back meanwhile
                self.come(client)
        return []

    def _drop(self, client: str) -> None:
        for clients in (self._left, self._held, self._wanted, self._taken):
            clients.pop(client, None)

    def _answered(self, some: list[str], rows: list[Row]) -> list[Wake]:
        for client, held in zip(some, replies.held(rows, len(some)), strict=True):
            self._wanted.pop(client, None)
            if held:
                self._held[client] = None
            else:
                self._taken[client] = self._now() + AGAIN
        return []

    def _try_again(self) -> None:
        """Want the locks again that another connection had. The first of them is due first."""
        while self._taken:
            client = next(iter(self._taken))
            if self._taken[client] > self._now():
                return
            del self._taken[client]
            if self._waits(client):
                self._wanted[client] = None

    def _ask(self, link: Link) -> None:
        self._asked = {slot: self._seen.get(slot, NEVER) for slot in self.waiting.slots}
        self._send(link, messages.ears(self._asked), self._heard)
        self._woken = False

    def _send(self, link: Link, sql: bytes, read: Read) -> None:
        link.send(sql)
        self._read, self._woken, self._due = read, True, self._now() + OVERDUE

    def _receive(self, link: Link) -> list[Wake]:
        """Read what has arrived, and return the wakes in a whole reply. The next call of `listen`
        sends a statement again that a kill has ended.
        """
        read = self._read
        assert read is not None  # noqa: S101  # a statement was sent
        try:
            rows, _ = link.receive()
        except ServerError as error:
            if error.code != INTERRUPTED:
                raise failed(error.code, error.text, link.where) from error
            self._read = None
            return []
        if rows is None:
            return []
        self._read = None
        try:
            return read(rows)
        except (ValueError, TypeError, LookupError) as error:
            raise EngineUnavailable(f"the reply cannot be read ({error})", sent=False) from error

    def _heard(self, rows: list[Row]) -> list[Wake]:
        found = replies.overheard(rows, self._hearing, self._asked)
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
        self._seen = {}
        self._fresh, self._read = True, None
