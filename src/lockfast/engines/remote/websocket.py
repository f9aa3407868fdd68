"""One WebSocket connection without I/O: bytes of the server in, messages out, and the reverse."""

from __future__ import annotations

import logging
import re
from http import HTTPStatus

from websockets.client import ClientProtocol
from websockets.http11 import Response
from websockets.uri import WebSocketURI

from lockfast.engines.remote import advice
from lockfast.engines.remote.frames import (
    BINARY,
    CLOSE,
    NO_CODE,
    PING,
    PONG,
    TEXT,
    Masker,
    Reader,
    Violation,
    closed,
    closing,
)
from lockfast.engines.remote.messages import LARGEST_REPLY
from lockfast.errors import EngineRefused, EngineUnavailable

REFUSALS = {
    HTTPStatus.UNAUTHORIZED: "it rejects the API key or token. Was the key removed, or has the "
    "token expired? Correct the password in the URL, or the file of password_file",
    HTTPStatus.FORBIDDEN: "it rejects this client, which may be unknown to it: see [subjects] in "
    "its configuration",
    HTTPStatus.NOT_FOUND: "there is no service of lockfast at this path. Remove the path from the "
    "URL. If a proxy is in front of the service, let it pass on WebSockets and /v1/",
}
KEYLESS = (
    "it needs an API key. Make one with `lockfast new-key NAME`, and write it as the password into "
    "the URL, or name its file by password_file"
)
LONGEST_AFTER = 30.0
"""Seconds until a request is repeated, at most, whatever a replica says."""
CLOSED = "the replica closed the connection"
END = b"\r\n\r\n"  # of the head of a response
_quiet = logging.getLogger("lockfast.websocket")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False  # it would log each byte of a connection at level DEBUG, with the secret
_quiet.setLevel(logging.CRITICAL)


class Ended(Exception):  # never leaves the engine
    """The connection has ended. The text says why."""


class WebSocket:
    """The protocol of one connection, from the handshake on."""

    def __init__(  # noqa: PLR0913  # each is a part of the request
        self,
        host: str,
        port: int,
        path: str,
        key: str | None,
        *,
        secure: bool,
        returns: bool = False,
    ) -> None:
        """Prepare a handshake. `key`: the API key, if there is one. `returns`: whether the client
        was connected before. Then an overloaded replica accepts it, since it may have leases.
        """
        uri = WebSocketURI(secure, host, port, path, "")
        self._handshake = ClientProtocol(uri, logger=_quiet)
        request = self._handshake.connect()
        request.headers["User-Agent"] = "lockfast"
        if returns:
            request.headers["Lockfast-Returns"] = "1"
        if key is not None:
            request.headers["Authorization"] = f"Bearer {key}"
        self._handshake.send_request(request)
        self._keyed, self._secure = key is not None, secure
        self._tail = b""
        """The last bytes of the handshake, which may be the beginning of END."""
        self._reader = Reader(LARGEST_REPLY, masked=False)
        self._frame = Masker().frame
        self._out = self._handshake.data_to_send()
        self._ended: str | None = None
        self.open = False
        """Whether the server has agreed to the handshake."""

    @property
    def waits(self) -> bool:
        """Whether there are bytes to be written."""
        return bool(self._out)

    def out(self) -> bytes:
        """Return the bytes that are to be written now."""
        out, self._out = self._out, []
        return out[0] if len(out) == 1 else b"".join(out)

    def send(self, message: bytes) -> None:
        """Add a message to what is to be written. Raise `Ended` if the server is closing."""
        self._add(TEXT, message)

    def ping(self) -> None:
        """Add a ping, which the server answers at once, also if its engine is slow. Raise as `send`
        does.
        """
        self._add(PING, b"")

    def _add(self, opcode: int, payload: bytes) -> None:
        if self._ended is not None:
            raise Ended(self._ended)
        self._out.append(self._frame(opcode, payload))

    def receive(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete. Raise `Ended` if the connection has ended."""
        if not self.open:
            data = self._shake(data)
            if not self.open or not data:
                return []
        elif not data:
            raise Ended(self._ended or CLOSED)
        messages = []
        try:
            for opcode, payload in self._reader.feed(data):
                if opcode in {TEXT, BINARY}:
                    messages.append(payload)
                elif opcode == PING:
                    self._out.append(self._frame(PONG, payload))
                elif opcode == CLOSE:
                    self._closed(payload)
                    break
        except Violation as error:
            raise Ended(f"not a WebSocket of lockfast: {error}") from None
        if self._ended is not None and not messages:
            raise Ended(self._ended)
        return messages

    def _closed(self, payload: bytes) -> None:
        """Answer a close frame."""
        code, reason = closed(payload)
        if self._ended is None:
            self._out.append(self._frame(CLOSE, b"" if code == NO_CODE else closing(code)))
            self._ended = reason[:200] or CLOSED

    def _shake(self, data: bytes) -> bytes:
        """Handle bytes of the handshake, and return those that follow it."""
        protocol = self._handshake
        seen = self._tail + data
        found = seen.find(END)
        end = len(data) if found < 0 else found + len(END) - len(self._tail)
        self._tail = seen[-len(END) + 1 :]
        if data:
            protocol.receive_data(data[:end])
        else:
            protocol.receive_eof()
        events = protocol.events_received()
        if not events and end < len(data):  # the body of a refusal
            protocol.receive_data(data[end:])
            events = protocol.events_received()
        for event in events:
            if isinstance(event, Response):
                self._answered(event)
        if not self.open and (protocol.close_expected() or not data):
            raise Ended(self._why())
        return data[end:]

    def _answered(self, response: Response) -> None:
        """Raise an error unless the server has agreed to the handshake."""
        if self._handshake.handshake_exc is None:
            self.open = True
            return
        status = HTTPStatus(response.status_code)
        refusal = REFUSALS.get(status)
        if status is HTTPStatus.UNAUTHORIZED and not self._keyed:
            refusal = KEYLESS
        if refusal is not None:
            raise EngineRefused(refusal)
        if status is HTTPStatus.TOO_MANY_REQUESTS:
            raise EngineUnavailable("too many connections have this key or token", sent=False)
        text = f"it answered HTTP {response.status_code}"
        what = advice.for_status(response.status_code, secure=self._secure)
        after = min(_seconds(response.headers.get("Retry-After", "")), LONGEST_AFTER)
        raise EngineUnavailable(f"{text}. {what}" if what else text, sent=False, after=after)

    def _why(self) -> str:
        """Return why there was no handshake."""
        error = self._handshake.handshake_exc or self._handshake.parser_exc
        if error is not None and not isinstance(error.__cause__ or error, EOFError):
            return f"not a WebSocket of lockfast: {str(error)[:200]}"
        return CLOSED if self._secure else f"{CLOSED}. {advice.PLAIN_TO_TLS}"


def _seconds(field: str) -> float:
    """Return the seconds of a field `Retry-After`. 0 if it is a date, which only proxies send."""
    return float(field) if re.fullmatch("[0-9]{1,9}", field) else 0.0
