"""The connections of one client: some for its callers, and one for its heart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from lockfast.engines.hosts import is_name
from lockfast.engines.postgres import messages
from lockfast.engines.postgres.connection import Link, Row
from lockfast.engines.postgres.url import Address, Place
from lockfast.engines.pushes import patience
from lockfast.engines.server_clock import ServerClock
from lockfast.engines.sql.hearing import Hearing
from lockfast.engines.sql.steps import Socket
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.port import EVERYONE, Wake, everyone_of
from lockfast.runtime.base import Bell, Clock, Crowded, Turns

Reply = TypeVar("Reply")
UNITS = 10**6  # in a second: the server's times are in µs
IO = 5.0  # seconds after which an attempt to connect is given up
GRACE = 0.05  # seconds for work that remains when a deadline is over
CHUNK = 256
"""Clients that one statement begins to listen for: the server compares each with all before it."""


class Transport(ABC):
    """The connections of one client, for threads and asyncio. Subclasses implement the waiting."""

    def __init__(
        self, address: Address, ear: Address | None, bell: Bell, turns: Turns, clock: Clock
    ) -> None:
        """Open nothing yet. `ear`: where the heart connects, if not to `address`. `turns`: limits
        how many callers have a connection at once.
        """
        self.bell = bell
        self.hearing = Hearing()
        self._turns = turns
        self.clock: ServerClock | None = None
        """Estimates the server's clock, never ahead of it; None before the first connection."""
        self.deaf = False
        """Whether notifications do not arrive, because a pooler swallows them."""
        self.unverified: str | None = None
        """The sslmode with which a password went to a host that was not verified; else None."""
        self._address = address
        self._ear_address = ear
        self._now = clock
        self._idle: list[Link] = []
        self._ear: Link | None = None
        self._good: dict[Address, Place] = {}
        self._buried: list[Link] = []

    @abstractmethod
    async def _ready(self, socket: Socket, events: int, deadline: float) -> bool:
        """Wait until a socket is ready for one of `events`; False if the deadline comes first."""

    @abstractmethod
    async def _look_up(self, host: str, deadline: float) -> list[str]:
        """Return the addresses of a host."""

    async def call(
        self,
        sql: bytes,
        deadline: float,
        read: Callable[[list[Row]], Reply],
        *,
        heart: bool = False,
    ) -> Reply:
        """Run statements, and return what `read` makes of the rows of the last one. Use the heart's
        connection if `heart`, or else wait for a turn and use one of the callers' connections.
        """
        if heart:
            ear = self._ear or await self._open_ear(deadline)
            return await self._call(sql, ear, deadline, read)
        try:
            return await self._turns.hold(partial(self._call_idle, sql, deadline, read), deadline)
        except Crowded:
            raise EngineUnavailable("no connection was free in time", sent=False) from None

    async def _call_idle(
        self, sql: bytes, deadline: float, read: Callable[[list[Row]], Reply]
    ) -> Reply:
        try:
            link = self._idle.pop()
        except IndexError:
            link = await self._open(self._address, deadline)
        return await self._call(sql, link, deadline, read)

    async def _call(
        self, sql: bytes, link: Link, deadline: float, read: Callable[[list[Row]], Reply]
    ) -> Reply:
        try:
            events = link.send(sql)
            while True:
                if not await self._ready(link, events, deadline):
                    await self._cancel(link)
                    raise _late(link)
                rows, events = link.receive()
                if rows is not None:
                    return _read(link, rows, read)
        except EngineError:
            if not link.idle:
                # The server may be down. Then the idle connections would only fail one by one. A
                # caller that was cancelled says nothing about them.
                idle, self._idle = self._idle, []
                for each in idle:
                    each.close()
            raise
        finally:
            self._put_back(link)

    async def _cancel(self, link: Link) -> None:
        """Ask the server to cancel a statement that is late, since nobody will read its answer."""
        request, deadline = link.cancel(), self._now() + GRACE
        for events in request.send():
            if not await self._ready(request, events, deadline):
                return

    def _put_back(self, link: Link) -> None:
        """Keep a connection. Close it if it is broken, or if its caller left before the answer."""
        if not link.idle:
            link.close()
            if link is self._ear:
                self._ear = None
        elif link is not self._ear:
            self._idle.append(link)

    async def _open(self, address: Address, deadline: float) -> Link:
        """Connect to the host that answered last, or else to the others one by one. Each has its
        share of the time, because libpq would spend all of it on a host that drops packets.
        """
        now = self._now()
        deadline = min(max(deadline, now + GRACE), now + IO)
        known = self._good.get(address, (*address.hosts[0], ""))
        hosts = sorted(address.hosts, key=lambda host: host != known[:2])
        found: list[str] = []
        for tried, (host, port) in enumerate(hosts):
            until = self._share(deadline, len(hosts) - tried)
            places = await self._places(host, port, known, until)
            if not places:
                where = address.shown(host, port)
                found.append(
                    f"the host of PostgreSQL at {where} has no address: its name cannot be resolved"
                )
            for nth, place in enumerate(places):
                share = self._share(until, len(places) - nth)
                try:
                    link = await self._connect(address, place, share)
                except EngineUnavailable as error:
                    found.append(error.message)
                    continue
                self._good[address] = place
                return link
        # Whatever the errors say, no connection was made, so no request was sent.
        raise EngineUnavailable("; ".join(dict.fromkeys(found)), sent=False)

    def _share(self, deadline: float, among: int) -> float:
        """Return the end of the first of `among` equal shares of the time that is left."""
        now = self._now()
        return now + max((deadline - now) / among, GRACE)

    async def _places(self, host: str, port: str, known: Place, deadline: float) -> list[Place]:
        """Return all addresses of a host, beginning with the one that answered last.

        A host is looked up only when its turn comes, because the name of a standby may take
        seconds. The host that answered last is looked up every time. Otherwise some clients would
        stay at the old server after its name has moved to another one.
        """
        found = await self._look_up(host, deadline) if is_name(host) else [""]
        places = [(host, port, each) for each in dict.fromkeys(found)]
        return sorted(places, key=lambda place: place != known)

    async def _connect(self, address: Address, place: Place, deadline: float) -> Link:
        host, port, _ = place
        link = Link(address.resolved([place]), address.shown(host, port))
        try:
            for events in link.connect():
                if not await self._ready(link, events, deadline):
                    raise _late(link)
        except BaseException:
            link.close()
            raise
        if link.used_password:
            self.unverified = self.unverified or address.unverified
        self.clock = ServerClock(link.micros, self._now(), UNITS)
        if self._ear_address is None:
            self.deaf = link.pooled
        return link

    async def try_ear(self, deadline: float) -> None:
        """Connect to the server that the option `listen` names, and note if a pooler answers."""
        if self._ear_address is not None:
            link = await self._open(self._ear_address, deadline)
            self.deaf = link.pooled
            link.close()

    async def _open_ear(self, deadline: float) -> Link:
        ear = self._ear = await self._open(self._ear_address or self._address, deadline)
        self.deaf = ear.pooled  # `listen` may name a pooler too, by mistake
        return ear

    async def subscribe(self, deadline: float | None) -> list[Wake]:
        """Listen for the clients that are heard, and for no others. Return wakes for those whose
        notifications begin now, or cannot arrive.

        A statement begins to listen for CHUNK clients at most. With many more of them, a renewal
        may come in between, and the next call goes on.
        """
        ear, hearing = self._ear, self.hearing
        if ear is not None and ear.listens and not hearing.changed:
            return []
        soon = patience(deadline, self._now())
        ear = ear or await self._open_ear(soon)
        if ear.listens:
            return await self._change(hearing.take(CHUNK), soon)
        if ear.missing is None:
            ear.missing = hearing.every()
        while some := ear.missing[:CHUNK]:
            await self._tune(dict.fromkeys(some, True), soon)
            del ear.missing[:CHUNK]
            if ear.missing and self._now() >= soon:
                return []
        ear.listens = True
        return [EVERYONE]

    async def _change(self, changes: dict[str, bool], deadline: float) -> list[Wake]:
        try:
            await self._tune(changes, deadline)
        except EngineError:
            self.hearing.put_back(changes)
            raise
        return [everyone_of(client) for client, on in changes.items() if on]

    async def _tune(self, clients: dict[str, bool], deadline: float) -> None:
        if not self.deaf:
            await self.call(messages.listen(clients), deadline, len, heart=True)

    async def notified(self, deadline: float | None) -> list[bytes]:
        """Wait for notifications and return them."""
        ear = self._ear
        if ear is None or not ear.listens:  # there is more to subscribe to
            return []
        pushes = ear.pushes()
        if not pushes:
            try:
                await self.bell.wait(deadline, ear.fileno())
                ear.drain()
            except EngineUnavailable:
                self._ear = None
                ear.close()
                raise
            pushes = ear.pushes()
        return pushes

    def reset(self) -> None:
        """Forget all connections, in a forked child. libpq's objects are kept, because freeing them
        would send a message to the parent's server.
        """
        links = self._links()
        self._idle, self._ear = [], None
        for link in links:
            link.forget()
        self._buried += links
        self.bell.close()

    async def close(self) -> None:
        """Close all connections."""
        links = self._links()
        self._idle, self._ear = [], None
        for link in links:
            link.close()
        self.bell.close()

    def _links(self) -> list[Link]:
        return [*self._idle, *([self._ear] if self._ear else [])]


def _read(link: Link, rows: list[Row], read: Callable[[list[Row]], Reply]) -> Reply:
    """Parse a reply. If that fails, close the connection, as its next reply may be wrong too."""
    try:
        return read(rows)
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        link.close()
        text = f"PostgreSQL at {link.where}: the reply cannot be read ({error})"
        raise EngineUnavailable(text[:500], sent=True) from error


def _late(link: Link) -> EngineUnavailable:
    return EngineUnavailable(f"PostgreSQL at {link.where}: no answer in time", sent=True)
