"""The connections of one client: some for its callers, and one for its heart. Subclasses wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from lockfast.engines.hosts import is_name
from lockfast.engines.postgres.connection import Link, Row
from lockfast.engines.postgres.steps import Socket
from lockfast.engines.postgres.url import Address, Place
from lockfast.engines.pushes import patience
from lockfast.engines.server_clock import ServerClock
from lockfast.errors import EngineUnavailable
from lockfast.runtime.base import Bell, Clock, Crowded, Turns

Reply = TypeVar("Reply")
UNITS = 10**6  # the server tells its time in µs
IO = 5.0  # seconds after which an attempt to connect is given up
GRACE = 0.05  # seconds for what has to be done when a deadline is over


class Transport(ABC):
    """What threads and asyncio share: all but the waiting."""

    def __init__(
        self, address: Address, ear: Address | None, bell: Bell, turns: Turns, clock: Clock
    ) -> None:
        """`ear` is where the heart connects, if not where the others do; `turns` are for them."""
        self.bell = bell
        self._turns = turns
        self.clock: ServerClock | None = None
        """What to add to our clock for at most the server's; None before the first connection."""
        self.deaf = False
        """Whether a pooler stands in between, which would swallow the notifications."""
        self.unverified: str | None = None
        """The sslmode with which a password went to a host that did not have to prove itself."""
        self._address = address
        self._ear_address = ear
        self._now = clock
        self._idle: list[Link] = []
        self._ear: Link | None = None
        self._good: dict[Address, Place] = {}
        self._buried: list[Link] = []

    @abstractmethod
    async def _ready(self, socket: Socket, events: int, deadline: float) -> bool:
        """Wait for a socket; False when the deadline came first."""

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
        """Run statements and read the rows of the last: on the heart's own connection, or on one of
        the others when it is the caller's turn.
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
        finally:
            self._put_back(link)

    async def _cancel(self, link: Link) -> None:
        """Have the server drop a statement that is late: nobody will read its answer."""
        request, deadline = link.cancel(), self._now() + GRACE
        for events in request.send():
            if not await self._ready(request, events, deadline):
                return

    def _put_back(self, link: Link) -> None:
        """Keep a connection, unless it is broken or its caller went before the answer came."""
        if not link.idle:
            link.close()
            if link is self._ear:
                self._ear = None
            # The server may have gone: the others would only fail one by one.
            idle, self._idle = self._idle, []
            for each in idle:
                each.close()
        elif link is not self._ear:
            self._idle.append(link)

    async def _open(self, address: Address, deadline: float) -> Link:
        """Connect to one of the hosts: to that which answered last, or one after the other. Each
        has its share of the time: libpq would spend all of it on a host that drops packets.
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
                found.append(f"no address of PostgreSQL at {where}")
            for nth, place in enumerate(places):
                share = self._share(until, len(places) - nth)
                try:
                    link = await self._connect(address, place, share)
                except EngineUnavailable as error:
                    found.append(str(error))
                    continue
                self._good[address] = place
                return link
        # Whatever they said: on a connection that was not made nothing can have happened.
        raise EngineUnavailable("; ".join(dict.fromkeys(found)), sent=False)

    def _share(self, deadline: float, among: int) -> float:
        """Divide the time that is left among so many, and give the end of the first share."""
        now = self._now()
        return now + max((deadline - now) / among, GRACE)

    async def _places(self, host: str, port: str, known: Place, deadline: float) -> list[Place]:
        """Return all addresses of a host, the one that answered last in front.

        A host is looked up only when it is its turn: the name of a standby may take seconds. That
        of the host that answered last is looked up every time, because a name that leads to
        another server now must not leave some clients at the old one.
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
        """Find out whether notifications come from the server that `listen` names."""
        if self._ear_address is not None:
            link = await self._open(self._ear_address, deadline)
            self.deaf = link.pooled
            link.close()

    async def _open_ear(self, deadline: float) -> Link:
        ear = self._ear = await self._open(self._ear_address or self._address, deadline)
        self.deaf = ear.pooled  # `listen` may name a pooler too, by mistake
        return ear

    async def listen(self, channel: str, deadline: float | None) -> list[bytes] | None:
        """Sleep until notifications come; None when they have just begun to flow, or cannot."""
        ear = self._ear
        if ear is None or ear.channel is None:
            soon = patience(deadline, self._now())
            ear = ear or await self._open_ear(soon)
            if not self.deaf:
                await self.call(b"LISTEN " + channel.encode(), soon, len, heart=True)
            ear.channel = channel
            return None
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
        """Forget all connections: the process has forked. libpq's part is kept: its end would
        tell the parent's server.
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
    """Read a reply. After one that makes no sense, the next on that connection may not either."""
    try:
        return read(rows)
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        link.close()
        text = f"PostgreSQL at {link.where}: a reply that cannot be read ({error})"
        raise EngineUnavailable(text[:500], sent=True) from error


def _late(link: Link) -> EngineUnavailable:
    return EngineUnavailable(f"PostgreSQL at {link.where}: no answer in time", sent=True)
