"""The asyncio transport: one pipelined connection per server for all tasks, and the heart's own.

A connection is an `asyncio.Protocol`, not a reader task: `asyncio.run` cancels every task on
Ctrl-C, and a cancelled reader would hang the bodies whose release needs it (TRAPS 52).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, cast

import hiredis

from lockfast.engines.pushes import patience
from lockfast.engines.redis.keys import command
from lockfast.engines.redis.reply_parser import MISSING, Parser
from lockfast.engines.redis.transport import (
    DOUBT,
    FRESH,
    IO,
    PING,
    Address,
    Login,
    failure,
    keep_alive,
    reason,
)
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.runtime.aio import TaskBell
from lockfast.runtime.base import Clock

LOOKS = 4  # times that a connection is looked at in the time that a request may take


class Pending(Protocol):
    """Whoever takes a reply: a future, or what behaves like one."""

    def done(self) -> bool:
        """Tell whether nothing is wanted any more."""
        ...

    def set_result(self, result: Any, /) -> None:
        """Take the reply."""

    def set_exception(self, exception: Exception, /) -> None:
        """Take in that there is none."""

    def exception(self) -> BaseException | None:
        """Tell why there is none."""
        ...


class Confirmation(asyncio.Future[Any]):
    """The answer to SUBSCRIBE, in its turn: a push if it was taken, an error if it was refused."""


class Connection(asyncio.Protocol):
    """One socket, its parser, and the futures of the replies to come."""

    def __init__(self, address: Address, on_push: Callable[[list[Any]], None]) -> None:
        """Begin unconnected."""
        self.address = address
        self.channel: str | None = None
        self.open = False
        self.served = False
        """Whether it was greeted: who has not used it need not be told that it ended."""
        self._loop = asyncio.get_running_loop()
        self._on_push = on_push
        self._reader = Parser()
        self._transport: asyncio.Transport | None = None
        self._pending: deque[Pending | None] = deque()
        self._out: list[bytes] = []
        self._asked = 0.0
        self._heard = 0.0
        self._answers = 0
        self._sent: deque[int] = deque(maxlen=LOOKS - 1)
        """How many requests had been sent at each of the last looks."""
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        # No `isinstance`: uvloop's transport is not a subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self.open = True
        sock = transport.get_extra_info("socket")
        if sock is not None:
            keep_alive(sock)
        self._heard = self._loop.time()
        self._watch = self._loop.call_later(IO / LOOKS, self._check)

    def stale(self, *, heart: bool) -> bool:
        """Return whether it was idle for so long that the network may have dropped it.

        For the heart, also return True if it is silent: leases may expire before `_check` closes
        the connection.
        """
        if self._pending:
            return heart and self.silent()
        return self._loop.time() - self._heard > FRESH

    def silent(self) -> bool:
        """Return whether a request has been waiting for a reply for more than a second."""
        since = max(self._heard, self._asked)
        return bool(self._pending) and self._loop.time() - since > DOUBT

    def send(self, packet: bytes) -> asyncio.Future[Any]:
        """Send a command, together with all others of this turn of the loop."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self.put(packet, future)
        return future

    def put(self, packet: bytes, *pending: Pending | None) -> None:
        """Send commands, and say who takes the reply to each."""
        if not self.open:  # it ended before the task that waited for it went on
            self._fail(pending, "the connection ended", sent=False)
            return
        if not self._pending:
            self._asked = self._loop.time()
        self._pending.extend(pending)
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(packet)

    def subscribe(self, channel: str) -> asyncio.Future[Any]:
        """Subscribe."""
        future = Confirmation(loop=self._loop)
        self.put(command("SUBSCRIBE", channel), future)
        return future

    def post(self, packet: bytes) -> None:
        """Send a command now, behind the others, and forget about its reply."""
        self._pending.append(None)
        self._out.append(packet)
        self._flush()

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            out, self._out = self._out, []
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def data_received(self, data: bytes) -> None:
        """Hand out replies, in the order of the requests."""
        self._heard = self._loop.time()
        gets, pending = self._reader.gets, self._pending
        try:
            self._reader.feed(data)
            while (reply := gets()) is not MISSING:
                if type(reply) is hiredis.PushNotification and not self._confirms(reply):
                    self._on_push(reply)
                    continue
                self._answers += 1
                future = pending.popleft()
                if future is not None and not future.done():
                    future.set_result(reply)
        except Exception as error:  # noqa: BLE001  # the parser raises much, and nobody else would catch it
            self.drop(f"not the Redis protocol: {error}")

    def _confirms(self, push: list[Any]) -> bool:
        """Return whether a push confirms the SUBSCRIBE whose reply is due next."""
        turn = bool(self._pending) and isinstance(self._pending[0], Confirmation)
        return turn and push[:1] == [b"subscribe"]

    def connection_lost(self, error: Exception | None) -> None:
        """Fail what is under way."""
        self.drop(str(error or "the server closed the connection"))

    def drop(self, why: str) -> None:
        """Give the connection up: the outcome of what is under way is unknown."""
        self.open = False
        if self._watch is not None:
            self._watch.cancel()
        if self._transport is not None:
            self._transport.abort()
        pending, self._pending = self._pending, deque()
        self._fail(pending, why, sent=True)
        if self.served:
            self.served = False
            self._on_push([])  # whoever listens has to subscribe again, perhaps elsewhere

    def _fail(self, pending: Iterable[Pending | None], why: str, *, sent: bool) -> None:
        for future in pending:
            if future is not None and not future.done():
                future.set_exception(
                    EngineUnavailable(f"Redis at {self.address}: {why}", sent=sent)
                )
                future.exception()  # seen, should its task be gone

    def _check(self) -> None:
        """Give up when a request waits for nearly IO: one timer per connection, not per request.

        Bytes that trickle in, and replies to others, win it no time.
        """
        if len(self._sent) == LOOKS - 1 and self._answers < self._sent[0]:
            self.drop("no answer in time")
            return
        self._sent.append(self._answers + len(self._pending))
        self._watch = self._loop.call_later(IO / LOOKS, self._check)


class AioTransport:
    """Connections of an asyncio client."""

    def __init__(self, login: Login, clock: Clock) -> None:
        """Nothing is open yet."""
        self._login = login
        self._now = clock
        self._buried: list[object] = []
        self.trouble: Callable[[], object] = bool
        self._begin()

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.offsets: dict[Address, float] = {}
        self._work: dict[Address, Connection] = {}
        self._hearts: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Task[Connection]] = {}
        self._pushes: list[bytes] = []
        self._bell = TaskBell(self._now)

    def reset(self) -> None:
        """Begin anew in a child. The parent's transports are kept from their finalizers, which
        would act on a selector that both processes share.
        """
        self._buried += [self._work, self._hearts]

    def _on_push(self, push: list[Any]) -> None:
        if not push:
            self.trouble()
        elif push[:1] == [b"message"] and len(push) > 2 and type(push[2]) is bytes:  # noqa: PLR2004  # a channel and a text
            self._pushes.append(push[2])
        self._bell.ring()

    async def _open(self, address: Address, seconds: float) -> Connection:
        connection = Connection(address, self._on_push)
        try:
            async with asyncio.timeout(seconds):
                tls = self._login.tls
                await self._loop.create_connection(
                    lambda: connection,
                    address.host,
                    address.port,
                    ssl=tls,
                    server_hostname=address.host if tls else None,
                )
                futures = [connection.send(each) for each in self._login.greeting(address)]
                replies = [await future for future in futures]
            self.offsets[address] = self._login.welcome(address, replies, self._now())
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

    async def _tried(
        self, connection: Connection | None, address: Address, seconds: float
    ) -> Connection:
        """Return a connection that was idle for long if it answers, else a new one."""
        if connection is not None and connection.silent():
            connection.drop("no answer in time")
        if connection is not None and connection.open:
            end = self._now() + seconds
            try:
                await self._by(connection.send(PING), min(seconds / 3, DOUBT), address)
            except EngineUnavailable:
                connection.drop("it ended while nobody used it")
            else:
                return connection
            seconds = end - self._now()
        return await self._open(address, seconds)

    async def _connect(self, address: Address, deadline: float, *, heart: bool) -> Connection:
        shelf = self._hearts if heart else self._work
        connection = shelf.get(address)
        if connection is not None and connection.open and not connection.stale(heart=heart):
            return connection
        seconds = min(max(deadline - self._now(), 0.05), IO)
        if heart:
            shelf[address] = await self._tried(connection, address, seconds)
            return shelf[address]
        # In a task of its own: the first caller may be cancelled, and others wait for it too.
        opening = self._opening.get(address)
        if opening is None:
            opening = self._loop.create_task(self._tried(connection, address, seconds))
            self._opening[address] = opening
            opening.add_done_callback(lambda task: self._opened(address, task))
        # By the caller's own deadline: whoever began to connect may have had more time.
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
            self._work[address] = task.result()

    async def call(self, address: Address, packet: bytes, deadline: float) -> Any:
        """Send one command and give its reply."""
        connection = self._work.get(address)
        if connection is None or not connection.open or connection.stale(heart=False):
            connection = await self._connect(address, deadline, heart=False)
        future = connection.send(packet)
        left = deadline - self._now()
        if left > IO * 0.9:  # the connection's own watch is near enough
            return await future
        return await self._by(future, left, address)

    async def pipeline(
        self, address: Address, packets: Sequence[bytes], deadline: float, *, heart: bool
    ) -> list[Any]:
        """Send commands together and give their replies."""
        connection = await self._connect(address, deadline, heart=heart)
        futures = [connection.send(packet) for packet in packets]
        return [await self._by(each, deadline - self._now(), address) for each in futures]

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
        """Close the connections to a server: its name may lead to another one now."""
        for shelf in (self._work, self._hearts):
            connection = shelf.pop(address, None)
            if connection is not None:
                connection.drop("given up")

    def post(self, address: Address, packet: bytes) -> None:
        """Write behind what was sent before: a claim's resignation arrives after the claim."""
        connection = self._work.get(address)
        if connection is not None and connection.open:
            connection.post(packet)

    async def listen(
        self, address: Address, channel: str, deadline: float | None
    ) -> list[bytes] | None:
        """Sleep until a push."""
        ear = self._hearts.get(address)
        if ear is None or not ear.open or ear.channel is None:
            await self._subscribe(address, channel, patience(deadline, self._now()))
            return None
        if not self._pushes:
            await self._bell.wait(deadline)
        if not ear.open:
            raise EngineUnavailable(f"Redis at {address}: the connection ended", sent=False)
        pushes, self._pushes = self._pushes, []
        return pushes

    async def _subscribe(self, address: Address, channel: str, deadline: float) -> None:
        ear = await self._connect(address, deadline, heart=True)
        reply = await self._by(ear.subscribe(channel), deadline - self._now(), address)
        if isinstance(reply, hiredis.ReplyError):
            raise failure(reply, address)
        ear.channel = channel

    async def pause(self, deadline: float | None) -> None:
        """Sleep until the bell."""
        await self._bell.wait(deadline)

    def rouse(self) -> None:
        """Ring."""
        self._bell.ring()

    async def close(self) -> None:
        """Close all connections."""
        for task in list(self._opening.values()):
            task.cancel()
        for connection in [*self._work.values(), *self._hearts.values()]:
            connection.drop("closed")
        self._work.clear()
        self._hearts.clear()
