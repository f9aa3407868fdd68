"""The asyncio transport: a few connections for all tasks, and the heart's own.

A socket is waited for by callbacks, not by a reader task: `asyncio.run` cancels every task on
Ctrl-C, and a cancelled reader would hang the bodies whose release needs it (TRAPS 52).
"""

from __future__ import annotations

import asyncio
import socket

from lockfast.engines.postgres.address import Address, is_name
from lockfast.engines.postgres.link import WRITE, Link, Row
from lockfast.engines.postgres.wire import IDLE, IO, late, patience, unsent
from lockfast.errors import EngineUnavailable
from lockfast.runtime.base import Clock

AT_ONCE = 10  # requests under way; the others wait for a connection


class AioWire:
    """Connections of an asyncio client."""

    def __init__(self, address: Address, ear: Address | None, clock: Clock) -> None:
        """`ear` is where the heart connects, if not where the others do."""
        self._address = address
        self._ear_address = ear
        self._now = clock
        self._loop = asyncio.get_running_loop()
        self.offset: float | None = None
        self.deaf = False
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._idle: list[Link] = []
        self._ear: Link | None = None
        self._bell = asyncio.Event()
        self._buried: list[Link] = []

    async def _ready(self, link: Link, events: int, deadline: float) -> None:
        ready: asyncio.Future[bool] = self._loop.create_future()

        def tell(in_time: bool) -> None:  # noqa: FBT001  # a callback's argument
            if not ready.done():
                ready.set_result(in_time)

        descriptor = link.fileno()
        timer = self._loop.call_later(max(deadline - self._now(), 0.0), tell, False)  # noqa: FBT003  # see above
        self._loop.add_reader(descriptor, tell, True)  # noqa: FBT003  # see above
        if events & WRITE:
            self._loop.add_writer(descriptor, tell, True)  # noqa: FBT003  # see above
        try:
            if not await ready:
                raise late(link)
        finally:
            timer.cancel()
            self._loop.remove_reader(descriptor)
            if events & WRITE:
                self._loop.remove_writer(descriptor)

    async def _open(self, address: Address, deadline: float) -> Link:
        deadline = min(max(deadline, self._now() + 0.05), self._now() + IO)
        try:
            async with asyncio.timeout(deadline - self._now()):
                hosts = await self._lookup(address)
        except TimeoutError as error:
            said = f"no address of PostgreSQL at {address} in time"
            raise EngineUnavailable(said, sent=False) from error
        link = Link(address.resolved(hosts), str(address))
        try:
            for events in link.connect():
                await self._ready(link, events, deadline)
        except EngineUnavailable as error:
            link.close()
            raise unsent(error) from error
        except BaseException:
            link.close()
            raise
        self.offset = link.micros / 1e6 - self._now()
        return link

    async def _lookup(self, address: Address) -> list[tuple[str, str, str]]:
        found: list[tuple[str, str, str]] = []
        for host, port in address.hosts:
            if not is_name(host):
                found.append((host, port, ""))
                continue
            try:
                infos = await self._loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError:
                continue
            found += [(host, port, str(info[4][0])) for info in infos]
        if not found:
            raise EngineUnavailable(f"no address of PostgreSQL at {address}", sent=False)
        return found

    async def _open_ear(self, deadline: float) -> Link:
        self._ear = await self._open(self._ear_address or self._address, deadline)
        self.deaf = self._ear.pooled and self._ear_address is None
        return self._ear

    async def call(self, sql: bytes, deadline: float, *, heart: bool = False) -> list[Row]:
        """Suspend until the answer is there, or the deadline."""
        if heart:
            link = self._ear or await self._open_ear(deadline)
            return await self._exchange(link, sql, deadline)
        try:
            async with asyncio.timeout(max(deadline - self._now(), 0.0)):
                await self._turn.acquire()
        except TimeoutError as error:
            raise EngineUnavailable("no connection was free in time", sent=False) from error
        try:
            link = self._idle.pop() if self._idle else await self._open(self._address, deadline)
            return await self._exchange(link, sql, deadline)
        finally:
            self._turn.release()

    async def _exchange(self, link: Link, sql: bytes, deadline: float) -> list[Row]:
        try:
            events = link.send(sql)
            while True:
                await self._ready(link, events, deadline)
                rows, events = link.receive()
                if rows is not None:
                    return rows
        finally:
            self._put_back(link)

    def _put_back(self, link: Link) -> None:
        """Keep a connection, unless it is broken or its task was cancelled before the answer."""
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
        """Sleep until a notification."""
        ear = self._ear
        if ear is None or ear.channel is None:
            soon = patience(deadline, self._now())
            ear = ear or await self._open_ear(soon)
            if not self.deaf:
                await self._exchange(ear, b"LISTEN " + channel.encode(), soon)
            ear.channel = channel
            return None
        pushes = ear.pushes()
        if not pushes:
            descriptor = ear.fileno()
            self._loop.add_reader(descriptor, self._hear, ear, descriptor)
            try:
                await self.pause(deadline)
            finally:
                self._loop.remove_reader(descriptor)
            if self._ear is not ear:
                said = f"PostgreSQL at {ear.where}: the connection ended"
                raise EngineUnavailable(said, sent=False)
            pushes = ear.pushes()
        return pushes

    def _hear(self, ear: Link, descriptor: int) -> None:
        self._bell.set()
        try:
            ear.drain()
        except EngineUnavailable:  # libpq has closed the descriptor already
            self._loop.remove_reader(descriptor)
            self._ear = None
            ear.close()

    async def pause(self, deadline: float | None) -> None:
        """Sleep until the bell."""
        if not self._bell.is_set() and (deadline is None or deadline > self._now()):
            left = None if deadline is None else deadline - self._now()
            timer = None if left is None else self._loop.call_later(left, self._bell.set)
            try:
                await self._bell.wait()
            finally:
                if timer is not None:
                    timer.cancel()
        self._bell.clear()

    def rouse(self) -> None:
        """Ring, from this loop or from elsewhere."""
        try:
            inside = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            inside = False
        if inside:
            self._bell.set()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._bell.set)

    def reset(self) -> None:
        """Forget the parent's connections; the child opens an engine of its own."""
        links = [*self._idle, *([self._ear] if self._ear else [])]
        for link in links:
            link.forget()
        self._buried += links

    async def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.pop().close()
        ear, self._ear = self._ear, None
        if ear is not None:
            ear.close()
