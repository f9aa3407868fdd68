"""The blocking transport: a connection per thread at work, and one for the heart."""

from __future__ import annotations

import select
import socket

from lockfast.engines.postgres.address import Address, is_name
from lockfast.engines.postgres.link import READ, WRITE, Link, Row
from lockfast.engines.postgres.wire import IDLE, IO, late, patience, unsent
from lockfast.errors import EngineUnavailable
from lockfast.runtime.base import Clock

EVENTS = {READ: select.POLLIN, WRITE: select.POLLOUT, READ | WRITE: select.POLLIN | select.POLLOUT}


class ThreadWire:
    """Connections of a blocking client."""

    def __init__(self, address: Address, ear: Address | None, clock: Clock) -> None:
        """`ear` is where the heart connects, if not where the others do."""
        self._address = address
        self._ear_address = ear
        self._now = clock
        self._buried: list[Link] = []
        self._begin()

    def _begin(self) -> None:
        self.offset: float | None = None
        self.deaf = False
        self._idle: list[Link] = []
        self._ear: Link | None = None
        self._bell, self._button = socket.socketpair()
        self._bell.settimeout(0)
        self._button.settimeout(0)

    def _ready(self, link: Link, events: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(link.fileno(), EVENTS[events])
        if not poll.poll(max(deadline - self._now(), 0.0) * 1000):
            raise late(link)

    def _open(self, address: Address, deadline: float) -> Link:
        deadline = min(max(deadline, self._now() + 0.05), self._now() + IO)
        link = Link(address.resolved(_lookup(address)), str(address))
        try:
            for events in link.connect():
                self._ready(link, events, deadline)
        except EngineUnavailable as error:
            link.close()
            raise unsent(error) from error
        except BaseException:
            link.close()
            raise
        self.offset = link.micros / 1e6 - self._now()
        return link

    def _open_ear(self, deadline: float) -> Link:
        self._ear = self._open(self._ear_address or self._address, deadline)
        self.deaf = self._ear.pooled and self._ear_address is None
        return self._ear

    async def call(self, sql: bytes, deadline: float, *, heart: bool = False) -> list[Row]:
        """Block until the answer is there, or the deadline."""
        if heart:
            link = self._ear or self._open_ear(deadline)
        else:
            try:
                link = self._idle.pop()
            except IndexError:
                link = self._open(self._address, deadline)
        try:
            events = link.send(sql)
            while True:
                self._ready(link, events, deadline)
                rows, events = link.receive()
                if rows is not None:
                    return rows
        finally:
            self._put_back(link)

    def _put_back(self, link: Link) -> None:
        if not link.idle:
            link.close()
            if link is self._ear:
                self._ear = None
            # The server may have gone: the others would only fail one by one.
            idle, self._idle = self._idle, []
            for each in idle:
                each.close()
        elif link is not self._ear:
            if len(self._idle) < IDLE:
                self._idle.append(link)
            else:
                link.close()

    async def listen(self, channel: str, deadline: float | None) -> list[bytes] | None:
        """Sleep in poll, on the heart's connection and the bell."""
        ear = self._ear
        if ear is None or ear.channel is None:
            soon = patience(deadline, self._now())
            ear = ear or self._open_ear(soon)
            if not self.deaf:
                await self.call(b"LISTEN " + channel.encode(), soon, heart=True)
            ear.channel = channel
            return None
        pushes = ear.pushes()
        if not pushes:
            try:
                self._wait(ear, deadline)
            except BaseException:
                ear.close()
                self._ear = None
                raise
            pushes = ear.pushes()
        return pushes

    def _wait(self, ear: Link, deadline: float | None) -> None:
        poll = select.poll()
        poll.register(ear.fileno(), select.POLLIN)
        poll.register(self._bell, select.POLLIN)
        left = None if deadline is None else max(deadline - self._now(), 0.0) * 1000
        for descriptor, _ in poll.poll(left):
            if descriptor == ear.fileno():
                ear.drain()
            else:
                self._silence()

    async def pause(self, deadline: float | None) -> None:
        """Sleep until the bell."""
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        left = None if deadline is None else max(deadline - self._now(), 0.0) * 1000
        if poll.poll(left):
            self._silence()

    def _silence(self) -> None:
        try:
            self._bell.recv(4096)
        except BlockingIOError:
            return

    def rouse(self) -> None:
        """Ring. A full pipe has rung already; a closed one has nobody to wake."""
        try:
            self._button.send(b"!")
        except OSError:
            return

    def reset(self) -> None:
        """Begin anew in a child. libpq's part is kept: its end would tell the parent's server."""
        links = [*self._idle, *([self._ear] if self._ear else [])]
        for link in links:
            link.forget()
        self._buried += links
        self._bell.close()
        self._button.close()
        self._begin()

    async def close(self) -> None:
        """Close all connections."""
        idle, self._idle = self._idle, []
        for link in idle:
            link.close()
        ear, self._ear = self._ear, None
        if ear is not None:
            ear.close()
        self._bell.close()
        self._button.close()


def _lookup(address: Address) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for host, port in address.hosts:
        if not is_name(host):
            found.append((host, port, ""))
            continue
        try:
            infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError:
            continue
        found += [(host, port, str(info[4][0])) for info in infos]
    if not found:
        raise EngineUnavailable(f"no address of PostgreSQL at {address}", sent=False)
    return found
