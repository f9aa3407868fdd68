"""The asyncio transport: the event loop moves the bytes of the connection."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import cast

from lockfast.engines.remote.identity import Identity
from lockfast.engines.remote.line import Line, Owner, Pending
from lockfast.engines.remote.opening import Opening
from lockfast.engines.remote.transport import Transport
from lockfast.engines.remote.url import Address, Place
from lockfast.engines.remote.websocket import Ended, WebSocket
from lockfast.engines.sockets import give_up, keep_alive, reason
from lockfast.errors import EngineUnavailable
from lockfast.runtime.base import Runtime


class AioLine(Line, asyncio.Protocol):
    """A connection of the event loop. It is a protocol and not a reader task, because `asyncio.run`
    cancels every task on Ctrl-C, and bodies that release their locks then need the connection.
    """

    def __init__(self, owner: Owner, wire: WebSocket, where: str) -> None:
        """Begin unconnected."""
        super().__init__(owner, wire, where)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        """When the timer is due."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Shake hands."""
        # No `isinstance`: uvloop's transport is not a subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            keep_alive(sock)
        if self.error is not None:  # the attempt was given up while it connected
            self._transport.abort()
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the replica."""
        if self.error is None:
            self.fed(data)
            if self._socket.waits:  # pongs
                self._soon()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the requests that are under way."""
        if error is None:
            self.fed(b"")  # says why
        self.drop(EngineUnavailable(f"{self.where}: {error}", sent=True))

    def post(self, message: bytes) -> None:
        """Send a message: at once if no other request is under way, or else in one write with
        others of this turn of the loop.
        """
        self._put(self._socket.send, message)

    def probe(self) -> None:
        """Send a ping."""
        self._put(self._socket.ping)

    def _put(self, put: Callable[..., object], *message: bytes) -> None:
        if self.error is not None:
            return
        try:
            put(*message)
        except Ended as error:
            self.drop(EngineUnavailable(f"{self.where}: {error}", sent=True))
        if len(self._pending) > 1:
            self._soon()
        elif not self._flushing:
            self._flush()

    async def answered(self, pending: Pending, deadline: float) -> bool:
        """Wait for the reply to a request until the deadline, and return whether it came.

        One timer serves all requests, because most of them are answered long before.
        """
        pending.deadline = deadline
        self._expect(deadline)
        await pending.event.wait(None)
        return pending.result is not None

    def _expect(self, deadline: float) -> None:
        timer = self._timer
        if timer is None or deadline < self._due:
            if timer is not None:
                timer.cancel()
            self._due = deadline
            delay = max(deadline - self._owner.now(), 0.0)
            self._timer = self._loop.call_later(delay, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._owner.now()
        for pending in list(self._pending.values()):
            if pending.deadline is None:
                continue
            if pending.deadline <= now:
                pending.event.set()
            else:
                self._expect(pending.deadline)

    def shut(self) -> None:
        """Close the socket."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    def leave_to_parent(self) -> None:
        """Close the child's copy of the socket."""
        if self._transport is None:
            return
        sock = self._transport.get_extra_info("socket")
        if sock is not None:
            give_up(sock.fileno())

    def _soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        out = self._socket.out()
        # uvloop raises RuntimeError if anything is written after the end.
        if out and self._transport is not None and self.error is None:
            self._transport.write(out)


class AioTransport(Transport):
    """The connection of an asyncio client."""

    def __init__(self, address: Address, identity: Identity, runtime: Runtime) -> None:
        """Bind to the running event loop."""
        super().__init__(address, identity, runtime)
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Line | None] | None = None
        self._buried: list[object] = []

    def _begin(self, opening: Opening) -> None:
        """Connect in a task: the first caller may be cancelled while others wait too."""
        self._task = self._loop.create_task(self._open(opening), context=contextvars.Context())

    async def _dial(self, place: Place, deadline: float) -> Line:
        address = self._address
        context = address.tls.current() if address.tls else None
        wire = WebSocket(
            place.host,
            place.port,
            address.path,
            address.secret(),
            secure=context is not None,
            returns=self.identity.epoch > 0,
        )
        line = AioLine(self, wire, str(place))
        try:
            async with asyncio.timeout(deadline - self.now()):
                await self._loop.create_connection(
                    lambda: line,
                    place.host,
                    place.port,
                    ssl=context,
                    server_hostname=place.host if context else None,
                )
                await line.ready.wait(None)
        except TimeoutError:
            # The event loop may have been too busy to notice in time that the replica has greeted.
            if line.welcome is None:
                line.drop(EngineUnavailable(f"{place}: no greeting in time", sent=False))
                raise
        except BaseException as error:
            line.drop(EngineUnavailable(f"{place}: {reason(error)}", sent=False))
            raise
        return line

    def reset(self) -> None:
        """Keep the parent's transport alive in a forked child, because its finalizer would act on a
        selector that both processes share.
        """
        if self.line is not None:
            self.line.leave_to_parent()
        self._buried += [self.line, self._task]
        self.line = None
        self._openings = {}

    async def close(self) -> None:
        """Close the connection, and stop connecting."""
        if self._task is not None:
            self._task.cancel()
        await super().close()
