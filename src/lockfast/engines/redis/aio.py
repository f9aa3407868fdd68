"""The asyncio transport: per server, a pipelined connection for all tasks and the heart's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import hiredis

from lockfast.engines.redis.aio_connection import Connection
from lockfast.engines.redis.channels import Change
from lockfast.engines.redis.transport import DOUBT, IO, PING, Address, Login
from lockfast.engines.server_clock import ServerClock
from lockfast.engines.sockets import reason
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.runtime.aio import TaskBell
from lockfast.runtime.base import Clock

NEAR = IO * 0.9  # seconds: a request with less time than this needs a timer of its own


class AioTransport:
    """The connections of an asyncio client."""

    def __init__(self, login: Login, clock: Clock, ended: Callable[[], object] = bool) -> None:
        """Create a transport without connections. `ended` is called when one has ended."""
        self._login = login
        self._now = clock
        self._ended = ended
        self._buried: list[object] = []
        self.trouble: Callable[[], object] = bool
        self._loop = asyncio.get_running_loop()
        self.clocks: dict[Address, ServerClock] = {}
        self.work: dict[Address, Connection] = {}
        self.hearts: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Task[Connection]] = {}
        self._pushes: list[bytes] = []
        self._bell = TaskBell(self._now)

    def reset(self) -> None:
        """Keep the parent's transports alive in a forked child, because their finalizers would act
        on a selector that both processes share.
        """
        self._buried += [self.work, self.hearts]

    def _on_push(self, push: list[Any]) -> None:
        if not push:
            self.trouble()
            self._ended()
        elif push[:1] == [b"message"] and len(push) > 2 and type(push[2]) is bytes:  # noqa: PLR2004  # a channel and a text
            self._pushes.append(push[2])
        self._bell.ring()

    async def _open(self, address: Address, seconds: float) -> Connection:
        connection = Connection(address, self._now, self._on_push)
        try:
            async with asyncio.timeout(seconds):
                tls = self._login.context()
                await self._loop.create_connection(
                    lambda: connection,
                    address.host,
                    address.port,
                    ssl=tls,
                    server_hostname=address.host if tls else None,
                )
                futures = [connection.send(each) for each in self._login.greeting(address)]
                replies = [await future for future in futures]
            self.clocks[address] = self._login.welcome(address, replies, self._now())
            connection.served = True
        except BaseException as error:
            connection.drop("the greeting failed")
            if isinstance(error, Exception) and not isinstance(error, EngineError):
                raise EngineUnavailable(
                    f"no connection to Redis at {address}: {reason(error)}",
                    sent=False,
                ) from error
            raise
        return connection

    async def tried(
        self, connection: Connection | None, address: Address, seconds: float
    ) -> Connection:
        """Return a connection that was idle for long if it answers a PING, else a new one."""
        if connection is not None and connection.silent():
            connection.drop("no answer in time")
        if connection is not None and connection.open:
            end = self._now() + seconds
            try:
                await self._by(connection.send(PING), min(seconds / 3, DOUBT), address)
            except EngineUnavailable:
                connection.drop("the connection ended while it was idle")
            else:
                return connection
            seconds = end - self._now()
        return await self._open(address, seconds)

    async def _connect(self, address: Address, deadline: float, *, heart: bool) -> Connection:
        shelf = self.hearts if heart else self.work
        connection = shelf.get(address)
        if connection is not None and connection.open and not connection.stale(heart=heart):
            return connection
        seconds = min(max(deadline - self._now(), 0.05), IO)
        if heart:
            shelf[address] = await self.tried(connection, address, seconds)
            return shelf[address]
        # Connect in a separate task: the first caller may be cancelled while others wait too.
        opening = self._opening.get(address)
        if opening is None:
            opening = self._loop.create_task(self.tried(connection, address, seconds))
            self._opening[address] = opening
            opening.add_done_callback(lambda task: self._opened(address, task))
        # Use this caller's deadline: the one that began to connect may have had more time.
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(opening)
        except TimeoutError:
            raise EngineUnavailable(
                f"no connection to Redis at {address}: TimeoutError", sent=False
            ) from None

    def _opened(self, address: Address, task: asyncio.Task[Connection]) -> None:
        del self._opening[address]
        if not task.cancelled() and task.exception() is None:
            self.work[address] = task.result()

    async def call(self, address: Address, packet: bytes, deadline: float) -> Any:
        """Send one command and return its reply."""
        connection = self.work.get(address)
        if connection is None or not connection.open or connection.stale(heart=False):
            connection = await self._connect(address, deadline, heart=False)
        future = connection.send(packet)
        left = deadline - self._now()
        if left > NEAR:  # the connection's own check ends the wait near enough to the deadline
            return await future
        return await self._by(future, left, address)

    async def pipeline(
        self, address: Address, packets: Sequence[bytes], deadline: float, *, heart: bool
    ) -> list[Any]:
        """Send commands together and return their replies."""
        connection = await self._connect(address, deadline, heart=heart)
        futures = [connection.send(packet) for packet in packets]
        left = deadline - self._now()
        if left <= NEAR:  # otherwise the connection's own check ends the wait
            await self._by(futures[-1], left, address)
        return [await each for each in futures]

    async def _by(self, future: asyncio.Future[Any], seconds: float, address: Address) -> Any:
        def late() -> None:
            if not future.done():
                self.trouble()
                future.set_exception(
                    EngineUnavailable(f"Redis at {address}: no answer in time", sent=True)
                )

        timer = self._loop.call_later(max(seconds, 0.0), late)
        try:
            return await future
        finally:
            timer.cancel()

    def forget(self, address: Address) -> None:
        """Close the connections to a server, since its name may lead to another server now."""
        for shelf in (self.work, self.hearts):
            connection = shelf.pop(address, None)
            if connection is not None:
                connection.drop("given up")

    def post(self, address: Address, packet: bytes) -> None:
        """Send a command after all earlier ones, so that a resignation arrives after its claim."""
        connection = self.work.get(address)
        if connection is not None and connection.open:
            connection.post(packet)

    async def ear(self, address: Address, deadline: float) -> Connection:
        """Return the heart's connection, on which messages arrive. Open it if there is none."""
        ear = self.hearts.get(address)
        if ear is not None and ear.open and ear.hears:
            return ear
        return await self._connect(address, deadline, heart=True)

    async def change(
        self, ear: Connection, changes: Sequence[Change], deadline: float
    ) -> list[hiredis.ReplyError | None]:
        """Change what the heart's connection subscribes to. Return for each None or its error."""
        heard, ear.hears = ear.hears, False  # without answers, it is tried before its next use
        futures = ear.change(changes)
        replies = [await self._by(each, deadline - self._now(), ear.address) for each in futures]
        errors = [each if isinstance(each, hiredis.ReplyError) else None for each in replies]
        ear.hears = heard or None in errors
        return errors

    async def listen(self, address: Address, deadline: float | None) -> list[bytes]:
        """Wait for messages on the heart's connection, or for the bell."""
        if not self._pushes:
            await self._bell.wait(deadline)
        ear = self.hearts.get(address)
        if ear is None or not ear.open:
            raise EngineUnavailable(f"Redis at {address}: the connection ended", sent=False)
        pushes, self._pushes = self._pushes, []
        return pushes

    async def pause(self, deadline: float | None) -> None:
        """Wait until the bell rings or the deadline passes."""
        await self._bell.wait(deadline)

    def rouse(self) -> None:
        """Ring the bell, which ends `listen` or `pause`."""
        self._bell.ring()

    async def close(self) -> None:
        """Close all connections."""
        for task in list(self._opening.values()):
            task.cancel()
        for connection in [*self.work.values(), *self.hearts.values()]:
            connection.drop("closed")
        self.work.clear()
        self.hearts.clear()
