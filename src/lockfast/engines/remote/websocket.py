"""One WebSocket connection without I/O: bytes of the server in, messages out, and the reverse."""

from __future__ import annotations

import logging
from http import HTTPStatus

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.uri import WebSocketURI

from lockfast.engines.remote.messages import LARGEST_REPLY
from lockfast.errors import EngineRefused, EngineUnavailable

REFUSALS = {
    HTTPStatus.UNAUTHORIZED: "it rejects the API key",
    HTTPStatus.FORBIDDEN: "it rejects this client",
    HTTPStatus.NOT_FOUND: "there is no service of lockfast at this path",
}
_quiet = logging.getLogger("lockfast.websocket")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False  # it would log each byte of a connection at level DEBUG, with the secret
_quiet.setLevel(logging.CRITICAL)


class Ended(Exception):  # never leaves the engine
    """The connection has ended. The text says why."""


class WebSocket:
    """The protocol of one connection, from the handshake on."""

    def __init__(self, host: str, port: int, path: str, key: str | None, *, secure: bool) -> None:
        """Prepare a handshake. `key`: the API key, if there is one."""
        uri = WebSocketURI(secure, host, port, path, "")
        self._protocol = ClientProtocol(uri, max_size=LARGEST_REPLY, logger=_quiet)
        request = self._protocol.connect()
        request.headers["User-Agent"] = "lockfast"
        if key is not None:
            request.headers["Authorization"] = f"Bearer {key}"
        self._protocol.send_request(request)
        self._parts: list[bytes] = []
        self.open = False
        """Whether the server has agreed to the handshake."""

    def out(self) -> bytes:
        """Return the bytes that are to be written now."""
        return b"".join(self._protocol.data_to_send())

    def send(self, message: bytes) -> None:
        """Add a message to what is to be written. Raise `Ended` if the server is closing."""
        try:
            self._protocol.send_text(message)
        except InvalidState:
            raise Ended(self._why()) from None

    def ping(self) -> None:
        """Add a ping, which the server answers at once, also if its engine is slow. Raise as `send`
        does.
        """
        try:
            self._protocol.send_ping(b"")
        except InvalidState:
            raise Ended(self._why()) from None

    def receive(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete. Raise `Ended` if the connection has ended."""
        protocol = self._protocol
        if data:
            protocol.receive_data(data)
        else:
            protocol.receive_eof()
        messages = []
        for event in protocol.events_received():
            if isinstance(event, Frame):
                if event.opcode in {Opcode.TEXT, Opcode.BINARY, Opcode.CONT}:
                    self._parts.append(bytes(event.data))
                    if event.fin:
                        messages.append(b"".join(self._parts))
                        self._parts.clear()
            elif isinstance(event, Response):
                self._answered(event)
        if not messages and (protocol.close_expected() or not data):
            raise Ended(self._why())
        return messages

    def _answered(self, response: Response) -> None:
        """Raise an error unless the server has agreed to the handshake."""
        if self._protocol.handshake_exc is None:
            self.open = True
            return
        refusal = REFUSALS.get(HTTPStatus(response.status_code))
        if refusal is not None:
            raise EngineRefused(refusal)
        raise EngineUnavailable(f"it answered HTTP {response.status_code}", sent=False)

    def _why(self) -> str:
        protocol = self._protocol
        error = protocol.handshake_exc or protocol.parser_exc
        if error is not None:
            return f"not a WebSocket of lockfast: {str(error)[:200]}"
        return (protocol.close_reason or "")[:200] or "the replica closed the connection"
