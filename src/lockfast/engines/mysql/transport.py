"""The connections of one client: some for its callers, one for its heart, and one for its ear."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from lockfast.engines.hosts import is_name
from lockfast.engines.mysql.failures import ALONE, failed
from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.results import Row, ServerError
from lockfast.engines.mysql.url import Address, Place
from lockfast.engines.server_clock import ServerClock
from lockfast.errors import EngineUnavailable
from lockfast.runtime.base import Bell, Clock, Crowded, Turns

Reply = TypeVar("Reply")
Read = Callable[[list[Row]], Reply]
UNITS = 10**6  # in a second: the server's times are in µs
IO = 5.0  # seconds after which an attempt to connect is given up
GRACE = 0.05  # seconds for work that remains when a deadline is over
FRESH = 30.0
"""Seconds after which an idle connection is replaced: a NAT may have dropped it without notice."""
RECENT = 1.0  # seconds after which the socket of an idle connection is checked before its next use


class Transport(ABC):
    """The connections of one client, for threads and asyncio. Subclasses implement the waiting."""

    def __init__(self, address: Address, bell: Bell, turns: Turns, clock: Clock) -> None:
        """Open nothing yet. `turns`: limits how many callers have a connection at once."""
        self.bell = bell
        self.address = address
        self.clock: ServerClock | None = None
        """Estimates the server's clock, never ahead of it; None before the first connection."""
        self._turns = turns
        self.now = clock
        self._idle: list[Link] = []
        self._hearts: list[Link] = []
        """Those of the heart. It has two if two of its calls are under way at once."""
        self._good: tuple[Place, str] | None = None
        """The server that answered last, and its address."""
        self._closed = False
        self._alone: Place | None = None
        """The Galera node that was last found without a majority. It still accepts logins."""

    @abstractmethod
    async def _ready(self, link: Link, events: int, deadline: float) -> bool:
        """Wait until a socket is ready for one of `events`; False if the deadline comes first."""

    @abstractmethod
    async def _look_up(self, host: str, deadline: float) -> list[str]:
        """Return the addresses of a host."""

    async def call(
        self, sql: bytes, deadline: float, read: Read[Reply], *, heart: bool = False
    ) -> Reply:
        """Run a statement, and return what `read` makes of its rows. Use the heart's connection if
        `heart`, or else wait for a turn and use one of the callers' connections.
        """
        if heart:
            return await self._call(sql, deadline, read, self._hearts)
        try:
            work = partial(self._call, sql, deadline, read, self._idle)
            return await self._turns.hold(work, deadline)
        except Crowded:
            raise EngineUnavailable("no connection was free in time", sent=False) from None

    async def _call(
        self, sql: bytes, deadline: float, read: Read[Reply], pool: list[Link]
    ) -> Reply:
        """Run a statement on a connection of a pool, or on a new one."""
        link = self._take(pool) or await self.open(deadline)
        try:
            return _read(link, await self.exchange(link, sql, deadline), read)
        except ServerError as error:
            if error.code == ALONE:
                self._alone, self._good = link.place, None  # the others first, next time
            raise failed(error.code, error.text, link.where) from error
        finally:
            self._put_back(link, pool)

    async def exchange(self, link: Link, sql: bytes, deadline: float) -> list[Row]:
        """Run a statement on a connection, and return its rows."""
        events = link.send(sql)
        while True:
            await self._wait(link, events, deadline)
            rows, events = link.receive()
            if rows is not None:
                return rows

    async def _wait(self, link: Link, events: int, deadline: float) -> None:
        """Wait for a socket. One that is always ready does not extend the deadline either: a server
        that sends rows without end would keep a caller for as long as it likes.
        """
        if self.now() > deadline or not await self._ready(link, events, deadline):
            raise late(link)

    def _take(self, pool: list[Link]) -> Link | None:
        """Take an idle connection that can be used. Close those that cannot."""
        while True:
            try:
                link = pool.pop()  # one operation, because threads share the pool
            except IndexError:
                return None
            age = self.now() - link.used
            if age < RECENT or (age < FRESH and link.alive()):
                return link
            link.close()

    def _put_back(self, link: Link, pool: list[Link]) -> None:
        """Keep a connection. Close it if it is broken, or if its caller left before the answer."""
        if link.idle:
            link.used = self.now()
            pool.append(link)
            if not self._closed:  # read after the link is in the pool: `close` empties it once
                return
        else:
            link.close()
        # The server may be down. Then the idle connections would only fail one by one.
        for each in self._links():
            each.close()

    async def open(self, deadline: float) -> Link:
        """Connect to the server that answered last, or else to the others one by one. Each has its
        share of the time, because one that drops packets would else use up all of it.
        """
        now = self.now()
        deadline = min(max(deadline, now + GRACE), now + IO)
        good = self._good[0] if self._good is not None else None
        places = sorted(self.address.places, key=lambda each: (each != good, each == self._alone))
        found: list[str] = []
        for tried, place in enumerate(places):
            until = self._share(deadline, len(places) - tried)
            hosts = await self._hosts(place, until)
            if not hosts:
                found.append(f"no address of MySQL at {place}")
            for nth, host in enumerate(hosts):
                try:
                    link = await self._connect(place, host, self._share(until, len(hosts) - nth))
                except EngineUnavailable as error:
                    found.append(error.message)
                    continue
                self._good = (place, host)
                return link
        # Whatever the errors say, no connection was made, so no request was sent.
        raise EngineUnavailable("; ".join(dict.fromkeys(found)), sent=False)

    def _share(self, deadline: float, among: int) -> float:
        """Return the end of the first of `among` equal shares of the time that is left."""
        now = self.now()
        return now + max((deadline - now) / among, GRACE)

    async def _hosts(self, place: Place, deadline: float) -> list[str]:
        """Return all addresses of a server, beginning with the one that answered last. A name is
        looked up every time, because it may have moved to another server.
        """
        if not is_name(place.host):
            return [place.host]
        found = dict.fromkeys(await self._look_up(place.host, deadline))
        return sorted(found, key=lambda each: (place, each) != self._good)

    async def _connect(self, place: Place, host: str, deadline: float) -> Link:
        link = Link(self.address, place, host)
        try:
            for events in link.connect(self.address.secret()):
                await self._wait(link, events, deadline)
            if link.greeting.read_only:
                raise EngineUnavailable(f"{link.where}: the server is read-only", sent=False)
        except BaseException:
            link.close()
            raise
        link.used = self.now()
        self.clock = ServerClock(link.greeting.micros, link.used, UNITS)
        return link

    def reset(self) -> None:
        """Forget all connections, in a forked child."""
        for link in self._links():
            link.forget()
        self.bell.close()

    async def close(self) -> None:
        """Close all connections. One that is in use is closed after its answer."""
        self._closed = True
        for link in self._links():
            link.close()
        self.bell.close()

    def _links(self) -> list[Link]:
        """Take all idle connections out of the pools."""
        links = []
        for pool in (self._idle, self._hearts):
            with suppress(IndexError):  # not `while pool`, because another thread may take the last
                while True:
                    links.append(pool.pop())
        return links


def _read(link: Link, rows: list[Row], read: Read[Reply]) -> Reply:
    """Parse a reply. If that fails, close the connection, as its next reply may be wrong too."""
    try:
        return read(rows)
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        link.close()
        text = f"{link.where}: the reply cannot be read ({error})"
        raise EngineUnavailable(text[:500], sent=True) from error


def late(link: Link) -> EngineUnavailable:
    """Return the error for an exchange whose deadline has passed."""
    return EngineUnavailable(f"{link.where}: no answer in time", sent=True)
