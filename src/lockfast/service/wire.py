"""A WebSocket of `lockfast serve` after its handshake: carries frames between a transport and a
connection.

`websocket` does the same in any ASGI server. There, each message costs a dict, a queue and the
switches between three tasks, which was two thirds of its time. Here, it costs two callbacks.
"""

from __future__ import annotations

import asyncio
from typing import Any

from lockfast.engines.remote.frames import (
    BINARY,
    CLOSE,
    NO_CODE,
    PING,
    PONG,
    TEXT,
    Event,
    Reader,
    Violation,
    closed,
    closing,
    head,
)
from lockfast.engines.remote.messages import LARGEST
from lockfast.service.caller import ANYBODY, Caller
from lockfast.service.replica import Replica
from lockfast.service.websocket import FLUSHING, GREETING, TURN

PINGS = 1_000  # without another message in SILENCE. Other clients wait while they are read
SILENCE = 20.0  # seconds between two checks. A client that was silent for one is sent a ping
PIECE = 2**16  # bytes that are written at once
RESTARTING = 1012  # the code of a close frame


class Wire(asyncio.Protocol):
    """One WebSocket, whose client has to send masked frames."""

    __slots__ = (
        "_among", "_asked", "_connection", "_crowded", "_due", "_end", "_events", "_heard", "_loop",
        "_paused", "_pings", "_reader", "_said", "_timer", "_transport",
    )  # fmt: skip

    def __init__(
        self,
        replica: Replica,
        transport: asyncio.Transport,
        among: set[Any],
        caller: Caller = ANYBODY,
    ) -> None:
        """Take over a transport. `among`: all protocols of the server, which ends them. `caller`:
        who the client is.
        """
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._among = among
        self._reader: Reader | None = Reader(LARGEST, masked=True)
        """None: the client has violated the protocol, and what it sends is ignored."""
        self._events: list[Event] = []
        """What was read, and is not handled yet."""
        self._paused = False
        """Whether reading is paused, because `_events` must be handled first."""
        self._crowded = False
        """Whether writing is paused, because the client does not read."""
        self._due = False
        """Whether `_flush` is about to run."""
        self._heard = True
        """Whether something has arrived since the last check."""
        self._asked = False
        """Whether a ping was sent at the last check."""
        self._pings = 0
        """How many have come since the last message, or since the last check."""
        self._said = False
        """Whether the close frame was sent."""
        self._end: asyncio.TimerHandle | None = None
        self._timer = self._loop.call_later(GREETING, self._check)
        self._connection = replica.connect(self._ready, caller)
        among.add(self)
        transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the client."""
        self._heard = True
        if self._reader is None:
            return
        try:
            self._events += self._reader.feed(data)
        except Violation as error:
            self._reader = None
            self._connection.end(error.code, str(error))
        else:
            if not self._paused:
                self._handle()

    def _handle(self) -> None:
        """Handle what was read, until the client has its share, or until too much is to be sent."""
        connection, events = self._connection, self._events
        done = 0
        ping: bytes | None = None
        for opcode, payload in events:
            if connection.full or done == TURN:
                break
            done += 1
            if opcode in {TEXT, BINARY}:
                self._pings = 0
                connection.feed(payload)
            elif opcode == PING:
                self._pings += 1
                ping = payload
            elif opcode == CLOSE:
                self._leave(payload)
        del events[:done]
        if ping is not None:
            self._pong(ping)
        if done == TURN:
            self._loop.call_soon(self._continue)
        paused = connection.full or bool(events)
        if paused != self._paused and not self._transport.is_closing():
            self._paused = paused
            (self._transport.pause_reading if paused else self._transport.resume_reading)()

    def _continue(self) -> None:
        if self._paused:
            self._handle()

    def _pong(self, payload: bytes) -> None:
        """Answer the latest ping, which is an answer to those before it too. A client that does not
        read gets none, since nothing else bounds how many would wait.
        """
        if self._pings > PINGS:
            self._transport.abort()
        elif not (self._said or self._crowded or self._transport.is_closing()):
            self._transport.write(head(PONG, len(payload)) + payload)

    def _leave(self, payload: bytes) -> None:
        """Answer the client's close frame, if it is not an answer itself, and end."""
        try:
            code, _ = closed(payload)
        except Violation as error:
            code = error.code
        if not self._said:
            self._say(b"" if code == NO_CODE else closing(code))
        self._close()
        self._connection.end()

    def _ready(self) -> None:
        """Write at the end of this turn of the loop, with all that is ready then."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._due = False
        if self._transport.is_closing():
            return
        outbox = self._connection.outbox
        parts: list[bytes] = []
        size = 0
        while not self._crowded and (frame := outbox.take()) is not None:
            outbox.sent()
            parts += head(TEXT, len(frame)), frame
            size += len(frame)
            if size >= PIECE:
                self._transport.write(b"".join(parts))
                parts, size = [], 0
        if parts:
            self._transport.write(b"".join(parts))
        if outbox.ended is not None:
            self._finish(*outbox.ended)
        if self._paused:
            self._handle()

    def _finish(self, code: int, reason: str) -> None:
        """Send a close frame after the last frame, which the client has some time to answer."""
        self._hurry()
        if not self._said and not self._crowded:
            self._say(closing(code, reason))
            if self._reader is None:
                self._transport.close()

    def _say(self, payload: bytes) -> None:
        self._said = True
        self._transport.write(head(CLOSE, len(payload)) + payload)

    def _close(self) -> None:
        """Close the transport when all is written, or when the client has had time to read it."""
        self._hurry()
        self._transport.close()

    def _hurry(self) -> None:
        if self._end is None:
            self._end = self._loop.call_later(FLUSHING, self._transport.abort)

    def _check(self) -> None:
        """End the connection if the client has not greeted, or does not answer a ping."""
        self._connection.expect_greeting()
        if self._asked and not self._heard:
            self._transport.abort()
            return
        self._asked = not self._heard
        if self._asked and not self._said:
            self._transport.write(head(PING, 0))
        self._heard = False
        self._pings = 0
        self._timer = self._loop.call_later(SILENCE, self._check)

    def pause_writing(self) -> None:
        """Write no more for now: the client does not read as fast."""
        self._crowded = True

    def resume_writing(self) -> None:
        """Write again."""
        self._crowded = False
        self._flush()

    def shutdown(self) -> None:
        """End the connection: the server ends."""
        self._connection.end(RESTARTING, "the replica ends")
        self._flush()
        self._close()

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002  # asyncio's
        """Forget the connection."""
        self._timer.cancel()
        if self._end is not None:
            self._end.cancel()
        self._among.discard(self)
        self._events.clear()
        self._connection.end()
