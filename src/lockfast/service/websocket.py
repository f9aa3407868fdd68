"""A WebSocket of an ASGI server: carries frames between it and a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from lockfast.service.caller import ANYBODY, Caller
from lockfast.service.connection import Connection
from lockfast.service.replica import Replica

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
TURN = 64  # messages of one client, before it is the turn of others
GREETING = 5.0  # seconds in which a client must send its first message
FLUSHING = 5.0  # seconds to send the rest when a connection ends


class WebSocket:
    """One WebSocket. A task reads, which is the server's, and another one writes.

    The task that writes is there because a reply is often ready while the reader waits for the next
    message. It sends everything that is ready before it sleeps again.
    """

    def __init__(
        self, replica: Replica, receive: Receive, send: Send, caller: Caller = ANYBODY
    ) -> None:
        """Connect to a replica. `caller`: who the client is."""
        self._receive = receive
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._asleep: asyncio.Future[None] | None = None
        """What the writer waits for."""
        self._crowded: asyncio.Future[None] | None = None
        """What the reader waits for, while nothing more is to be read."""
        self._connection: Connection = replica.connect(self._ready, caller)

    def _ready(self) -> None:
        """Wake the writer. A bare future, because an `asyncio.Event` costs three times as much."""
        asleep = self._asleep
        if asleep is not None and not asleep.done():
            asleep.set_result(None)

    async def run(self) -> None:
        """Serve the WebSocket, which was accepted, until it ends."""
        writer: asyncio.Task[None] | None = None
        try:
            writer = asyncio.create_task(self._write())
            late = self._loop.call_later(GREETING, self._connection.expect_greeting)
            try:
                await self._read()
            finally:
                late.cancel()
        finally:
            self._connection.end()
            if writer is not None:
                await asyncio.wait([writer], timeout=FLUSHING)
                writer.cancel()

    async def _read(self) -> None:
        connection = self._connection
        read = 0
        while not connection.ended:
            while connection.full:
                self._crowded = self._loop.create_future()
                await self._crowded
            message = await self._receive()
            read += 1
            if not read % TURN:  # `receive` does not suspend while messages wait
                await asyncio.sleep(0)
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            connection.feed(message["bytes"] if text is None else text)

    async def _write(self) -> None:
        outbox = self._connection.outbox
        try:
            while True:
                frame = outbox.take()
                if frame is not None:
                    await self._send({"type": "websocket.send", "text": frame.decode()})
                    outbox.sent()
                    if self._crowded is not None:
                        self._relieve()
                elif outbox.ended is not None:
                    code, reason = outbox.ended
                    await self._send({"type": "websocket.close", "code": code, "reason": reason})
                    return
                else:
                    asleep = self._asleep = self._loop.create_future()
                    await asleep
        except OSError:  # ASGI's word for a client that has left
            pass
        finally:
            self._connection.end()
            self._relieve()

    def _relieve(self) -> None:
        """Let the reader look again whether more is to be read."""
        if self._crowded is not None and not self._crowded.done():
            self._crowded.set_result(None)
        self._crowded = None
