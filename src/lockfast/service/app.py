"""The service as an ASGI application. It can be mounted in another one."""

from __future__ import annotations

import logging

from lockfast.service.access import allowed
from lockfast.service.replica import Replica
from lockfast.service.websocket import Message, Receive, Send, WebSocket

log = logging.getLogger("lockfast")
CONNECT = "/v1/connect"
Fields = list[tuple[bytes, bytes]]
LIVE, READY = "/livez", "/readyz"
OK, FORBIDDEN, NOT_FOUND, NOT_ALLOWED, UNAVAILABLE = 200, 403, 404, 405, 503


class App:
    """An ASGI application around a replica."""

    def __init__(self, replica: Replica) -> None:
        """Serve this replica. It is opened by the first connection."""
        self.replica = replica

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one WebSocket or HTTP request, or the server's lifespan."""
        kind = scope["type"]
        if kind == "websocket":
            await self._websocket(scope, receive, send)
        elif kind == "http":
            await self._http(scope, send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        else:
            raise ValueError(f"lockfast does not serve {kind!r}")

    async def _websocket(self, scope: Message, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        if not allowed(scope["headers"]):
            await _refuse(scope, send, FORBIDDEN)
        elif _path(scope) != CONNECT:
            await _refuse(scope, send, NOT_FOUND)
        elif self.replica.draining:
            await _refuse(scope, send, UNAVAILABLE)
        else:
            await WebSocket(self.replica, receive, send).run()

    async def _http(self, scope: Message, send: Send) -> None:
        status = await self._status(scope)
        body = b"ok\n" if status == OK else b""
        length = b"content-length", b"%d" % len(body)
        await _respond(
            send, "http.response", status, [(b"content-type", b"text/plain"), length], body
        )

    async def _status(self, scope: Message) -> int:
        path = _path(scope)
        if not allowed(scope["headers"]):
            return FORBIDDEN
        if path not in {LIVE, READY}:
            return NOT_FOUND
        if scope["method"] not in {"GET", "HEAD"}:
            return NOT_ALLOWED
        return OK if path == LIVE or await self.replica.ready() else UNAVAILABLE

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Close the replica at the server's end. A mounted application never gets here."""
        while True:
            kind = (await receive())["type"]
            if kind == "lifespan.shutdown":
                await self.replica.close()
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return


def _path(scope: Message) -> str:
    """Return the path below the place where the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


async def _refuse(scope: Message, send: Send, status: int) -> None:
    """Refuse a WebSocket. A server without the extension answers 403."""
    if "websocket.http.response" in (scope.get("extensions") or {}):
        # No headers: uvicorn 0.35 adds a second Content-Length, which clients reject.
        await _respond(send, "websocket.http.response", status, [], b"")
    else:
        await send({"type": "websocket.close"})


async def _respond(send: Send, kind: str, status: int, headers: Fields, body: bytes) -> None:
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})
