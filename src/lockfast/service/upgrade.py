"""uvicorn's HTTP, until a connection becomes a WebSocket and is handed over to `Wire`."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from lockfast.service.admission import UNIX
from lockfast.service.app import DIRECT
from lockfast.service.caller import Caller
from lockfast.service.handshake import Arrival
from lockfast.service.replica import Replica
from lockfast.service.websocket import Message
from lockfast.service.wire import Wire


class Left(asyncio.Transport):
    """The transport of a protocol that has handed its own over."""

    def close(self) -> None:
        """Close nothing."""

    def is_closing(self) -> bool:
        """Return True."""
        return True


class Http(H11Protocol):
    """uvicorn's HTTP, which knows the connection's arrival."""

    def __init__(self, arrival: Arrival, config: uvicorn.Config, state: ServerState) -> None:
        """Serve a connection."""
        super().__init__(config=config, server_state=state, app_state={})
        self._arrival = arrival
        upgraded = partial(Upgrade, arrival)
        self.ws_protocol_class = upgraded  # type: ignore[assignment]  # it is only called

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Begin, after TLS."""
        self._arrival.transport = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the arrival."""
        self._arrival.done()
        super().connection_lost(exc)


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
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.family == socket.AF_UNIX:
            scope["extensions"][UNIX] = True
        await super().run_asgi()

    def data_received(self, data: bytes) -> None:
        """Handle the request. A client that sends more before the reply violates the protocol."""
        if self._asked:
            self.transport.abort()
        else:
            self._asked = True
            super().data_received(data)

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
