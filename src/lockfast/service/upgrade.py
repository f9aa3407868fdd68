"""uvicorn's HTTP, until a connection becomes a WebSocket and is handed over to `Wire`.

A connection of HTTP requests begins as an arrival, and a stranger has the limits of one. The
application admits it with the first request that shows who it is. From then on `Resting` limits it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from lockfast.service.admission import UNIX
from lockfast.service.app import DIRECT
from lockfast.service.caller import Caller
from lockfast.service.figures import OTHER, Figures
from lockfast.service.handshake import Arrival
from lockfast.service.http.answer import problem
from lockfast.service.http.exchange import OWN, encoded
from lockfast.service.keep_alive import STUCK, Resting
from lockfast.service.replica import Replica
from lockfast.service.websocket import Message
from lockfast.service.wire import Wire


def _is_unix(transport: asyncio.BaseTransport) -> bool:
    sock = transport.get_extra_info("socket")
    return sock is not None and sock.family == socket.AF_UNIX


def _refusal(status: HTTPStatus, text: bytes) -> bytes:
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain\r\n"
    return b"%bContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (head.encode(), len(text), text)


LONGEST_FIELD = 8_192  # bytes of a line of the header, of those that websockets accepts
TOO_LARGE = _refusal(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"A field of the header has at most 8 KiB.\n"
)
MALFORMED = _refusal(HTTPStatus.BAD_REQUEST, b"The header of the handshake cannot be read.\n")


class Left(asyncio.Transport):
    """The transport of a protocol that has handed its own over."""

    def close(self) -> None:
        """Close nothing."""

    def is_closing(self) -> bool:
        """Return True."""
        return True


class Http(H11Protocol):
    """uvicorn's HTTP, which knows the connection's arrival."""

    def __init__(
        self,
        arrival: Arrival,
        resting: Resting,
        figures: Figures,
        config: uvicorn.Config,
        state: ServerState,
    ) -> None:
        """Serve a connection."""
        super().__init__(config=config, server_state=state, app_state={})
        self._arrival = arrival
        self._resting = resting
        self._figures = figures
        self._admitted = False
        self._stuck: asyncio.TimerHandle | None = None
        self._application: Any = self.app
        self.app = self._serve
        upgraded = partial(Upgrade, arrival)
        self.ws_protocol_class = upgraded  # type: ignore[assignment]  # it is only called

    def _serve(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:  # noqa: ANN401  # ASGI's
        """Run the application, and let it know this connection."""
        self._resting.remove(self)
        extensions = {**(scope.get("extensions") or {}), OWN: self}
        if _is_unix(self.transport):
            extensions[UNIX] = True
        scope["extensions"] = extensions
        served: Awaitable[None] = self._application(scope, receive, send)
        return served

    def admit(self) -> None:
        """Serve it from now on as one of a client, and not of a stranger."""
        if not self._admitted:
            self._admitted = True
            self._arrival.done()

    def gone(self) -> bool:
        """Return whether the client has left."""
        return self.transport.is_closing() or self.cycle.disconnected

    def abort(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Begin, after TLS."""
        self._arrival.transport = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the arrival."""
        self._arrival.done()
        self._resting.remove(self)
        if self._stuck is not None:
            self._stuck.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Limit the time to the next request, and how many connections wait for one."""
        if self._admitted:
            self._resting.add(self)  # first: the next request may be in the buffer already
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # it is uvicorn's
        """Answer what is no HTTP as the API answers everything. Otherwise any stranger could fill
        the log with tracebacks: uvicorn's own method fails after an answer, and for HEAD. And the
        application would answer too, if the head of the request was right.
        """
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            answer = problem(HTTPStatus.BAD_REQUEST, "malformed", "this is no request of HTTP/1.1")
            content, fields = encoded(answer, close=True)
            if self.conn.our_state is h11.IDLE:  # otherwise, the application counts it
                self._figures.replied(OTHER, answer.status)
            elif self.scope["method"] == "HEAD":
                content = b""
            events = h11.Response(status_code=answer.status, headers=fields), h11.Data(data=content)
            for event in (*events, h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def handle_websocket_upgrade(self, event: Any) -> None:  # noqa: ANN401  # h11's
        """Limit it by `Wire` from now on."""
        self._resting.remove(self)
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        """Limit the time for which the client reads nothing."""
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(STUCK, self.abort)

    def resume_writing(self) -> None:
        """Forget that limit."""
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None


class Upgrade(WebSocketsSansIOProtocol):
    """The handshake of a WebSocket. Afterwards, the application calls `_hand_over`."""

    def __init__(self, arrival: Arrival, **more: Any) -> None:  # noqa: ANN401  # uvicorn's
        """Serve a connection."""
        super().__init__(**more)
        self._arrival = arrival
        self._asked = False

    async def run_asgi(self) -> None:
        """Run the application."""
        scope = cast("Message", self.scope)
        scope["extensions"][DIRECT] = self._hand_over
        if _is_unix(self.transport):
            scope["extensions"][UNIX] = True
        await super().run_asgi()

    def data_received(self, data: bytes) -> None:
        """Handle the request. A client that sends more before the reply violates the protocol."""
        if self._asked:
            self.transport.abort()
        else:
            self._asked = True
            super().data_received(data)
            # h11 has accepted it, and websockets has not. uvicorn would not answer.
            if self.conn.handshake_exc is not None and not self.transport.is_closing():
                long = max(map(len, data.split(b"\r\n"))) > LONGEST_FIELD
                self.transport.write(TOO_LARGE if long else MALFORMED)
                self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the arrival."""
        self._arrival.done()
        super().connection_lost(exc)

    def _hand_over(self, replica: Replica, caller: Caller) -> None:
        """Connect the client to a replica, which checks from now on whether it greets."""
        stop = getattr(self, "stop_keepalive", None)  # uvicorn 0.35 has none
        if stop is not None:
            stop()
        self.connections.discard(self)
        self._arrival.done()
        Wire(replica, self.transport, self.connections, caller)
        self.transport = Left()
