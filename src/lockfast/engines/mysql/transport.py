"""The connections of one client: some for its callers, one for its heart, and one for its ear."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from lockfast.engines.hosts import is_name
from lockfast.engines.mysql.attempts import Attempt, Attempts
from lockfast.engines.mysql.failures import ALONE, PRIMARY, failed
from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.packets import LARGEST
from lockfast.engines.mysql.packing import LEAST
from lockfast.engines.mysql.pool import Pool
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
SOON = 2.0  # seconds in which a heart that got no connection tries again


class Transport(ABC):
    """The connections of one client, for threads and asyncio. Subclasses implement the waiting."""

    def __init__(self, address: Address, bell: Bell, turns: Turns, clock: Clock) -> None:
        """Open nothing yet. `turns`: limits how many callers have a connection at once."""
        self.bell = bell
        self.address = address
        self.clock: ServerClock | None = None
        """Estimates the server's clock, never ahead of it; None before the first connection."""
        self.packet = LEAST
        """The largest request in bytes for the server to which it connected last."""
        self._turns = turns
        self.now = clock
        self._idle = Pool(clock)
        self._hearts = Pool(clock)
        """Those of the heart. It has two if two of its calls are under way at once."""
        self._attempts = Attempts()
        self._good: tuple[Place, str] | None = None
        """The server that answered last, and its address."""
        self._heart_first = 0.0
        """Until when a connection that becomes free is for the heart, which could open none."""
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

    async def _call(self, sql: bytes, deadline: float, read: Read[Reply], pool: Pool) -> Reply:
        """Run a statement on a connection of a pool, or on a new one."""
        link, pool = await self._link(pool, deadline)
        began = self.now()
        try:
            limited = link.limited(sql, max(deadline - began, 0.0) + GRACE)
            return _read(link, await self.exchange(link, limited, deadline), read)
        except EngineUnavailable:
            self._doubt(pool, began)
            raise
        except ServerError as error:
            if error.code == ALONE:
                self._alone, self._good = link.place, None  # the others first, next time
            if not link.idle:  # the server is read-only, for example, and the others lead to it too
                self._doubt(pool, began)
            raise failed(error.code, error.text, link.where) from error
        finally:
            self._put_back(link, pool)

    def _doubt(self, pool: Pool, began: float) -> None:
        """Note that a call failed that began then, other than by the cancellation of its caller.
        The callers' calls say nothing about the heart's connection: a renewal has a sixth of a ttl,
        and a busy server needs longer for a login. If it is broken, its own call will show that.
        """
        pool.doubt(began)
        self._idle.doubt(began)

    async def exchange(self, link: Link, sql: bytes, deadline: float) -> list[Row]:
        """Run a statement on a connection, and return its rows."""
        events = link.send(sql)
        while True:
            if not await self._in_time(link, events, deadline):
                raise late(link)
            rows, events = link.receive()
            if rows is not None:
                return rows

    async def _in_time(self, link: Link, events: int, deadline: float) -> bool:
        """Wait for a socket. One that is always ready does not extend the deadline either: a server
        that sends rows without end would keep a caller for as long as it likes.
        """
        return self.now() <= deadline and await self._ready(link, events, deadline)

    async def _link(self, pool: Pool, deadline: float) -> tuple[Link, Pool]:
        """Return a connection, and the pool to which it belongs. If the server gives no other one,
        the heart and the callers lend each other theirs. The heart goes first, because a late
        renewal costs a lease.
        """
        heart = pool is self._hearts
        link = pool.take()
        if link is None:
            try:
                link = await self.open(deadline)
            except EngineUnavailable:
                pool = self._idle if heart else self._hearts
                link = pool.take() if heart or self.now() > self._heart_first else None
                if link is None:
                    if heart:
                        self._heart_first = self.now() + SOON
                    raise
        if heart:
            self._heart_first = 0.0
        return link, pool

    def _put_back(self, link: Link, pool: Pool) -> None:
        """Keep a connection. Close it if it is broken, or if its caller left before the answer."""
        if not link.idle:
            link.close()
            return
        if self.now() < self._heart_first and self._hearts.empty:
            pool = self._hearts
        pool.put(link)
        if self._closed:  # read after the link is in the pool: `close` empties it once
            self._close_idle()

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
                found.append(
                    f"the host of MySQL at {place} has no address: its name cannot be resolved"
                )
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
        attempt = self._attempts.take(place, host)
        if attempt is None:
            password = self.address.secret()
            link = Link(self.address, place, host)
            attempt = Attempt(link, link.connect(password), self.now)
        link = attempt.link
        try:
            await self._log_in(attempt, deadline)
            if link.greeting.read_only:
                raise EngineUnavailable(
                    f"{link.where}: the server is read-only: {PRIMARY}", sent=False
                )
        except BaseException:  # it may be late only, or its caller was cancelled
            self._attempts.keep(attempt)
            if self._closed:  # read after that: `close` takes them once
                self._close_idle()
            raise
        link.used = self.now()
        # More would have to be sent in several packets. MySQL's default is 64 MiB.
        self.packet = min(link.greeting.packet, LARGEST)
        self.clock = ServerClock(link.greeting.micros, link.used, UNITS)
        return link

    async def _log_in(self, attempt: Attempt, deadline: float) -> None:
        """Go on with a login. Raise an error if the deadline comes before its end."""
        while not attempt.done:
            if attempt.events and not await self._in_time(attempt.link, attempt.events, deadline):
                raise late(attempt.link)
            attempt.step()

    def reset(self) -> None:
        """Forget all connections, in a forked child."""
        for link in self._links():
            link.forget()
        self.bell.close()

    async def close(self) -> None:
        """Close all connections. One that is in use is closed after its answer."""
        self._closed = True
        self._close_idle()
        self.bell.close()

    def _close_idle(self) -> None:
        for link in self._links():
            link.close()

    def _links(self) -> list[Link]:
        """Take all connections that nobody uses."""
        return [*self._idle.emptied(), *self._hearts.emptied(), *self._attempts.emptied()]


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
