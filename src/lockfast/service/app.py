"""The service as an ASGI application. It can be mounted in another one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Protocol

from lockfast.service.admission import OPEN, Admission
from lockfast.service.caller import Caller
from lockfast.service.figures import CONNECTIONS, OTHER
from lockfast.service.http.api import Api
from lockfast.service.http.exchange import serve
from lockfast.service.http.routes import OPENAPI
from lockfast.service.http.seal import Seal, new_key
from lockfast.service.metrics_page import TYPE, page
from lockfast.service.replica import DENIED, Replica
from lockfast.service.signing import JWKS
from lockfast.service.websocket import Message, Receive, Send, WebSocket

log = logging.getLogger("lockfast")
API, CONNECT = "/v1/", "/v1/connect"
WEB = "/web"
DIRECT = "lockfast.direct"
"""The extension with which our own server carries the frames itself: see `wire`."""
KEPT = 300  # seconds for which others may keep the public keys
RETURNS = b"lockfast-returns", b"1"
"""The header of a client that was connected before. It may have leases, so it is never refused
because a replica is overloaded."""
Fields = Sequence[tuple[bytes, bytes]]
LIVE, METRICS, READY = "/livez", "/metrics", "/readyz"
PAGES = {LIVE, METRICS, READY}
OK, FORBIDDEN, NOT_FOUND, NOT_ALLOWED, TOO_MANY, UNAVAILABLE = 200, 403, 404, 405, 429, 503
TEXTS = {
    OK: b"ok\n",
    NOT_FOUND: b"This is lockfast serve: see /v1/, /openapi.json, /livez, /readyz and /metrics.\n",
    UNAVAILABLE: b"The engine does not answer, or this replica is about to end: see its log.\n",
}


class Dashboard(Protocol):
    """The dashboard, which is optional: see `service.dashboard`."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve a request."""

    async def close(self) -> None:
        """Disconnect from the engine."""


class App:
    """An ASGI application around a replica."""

    def __init__(
        self, replica: Replica, admission: Admission = OPEN, handle_keys: Sequence[bytes] = ()
    ) -> None:
        """Serve this replica. It is opened by the first connection. `admission`: who may connect.
        Without it: everybody on this machine. `handle_keys`: the keys of the handles of HTTP
        clients. None: a random one, so that handles are good for this application only.
        """
        self.replica = replica
        self.page = partial(page, replica.figures)
        """Returns what `/metrics` shows."""
        self.admission = admission
        self._api = Api(replica, handle_keys or [new_key()])
        self.dashboard: Dashboard | None = None
        """What serves requests below `WEB`."""

    def admit(self, admission: Admission, handle_keys: Sequence[bytes] = ()) -> int:
        """Admit these clients only, from now on. End the connections of all others, and return how
        many these were. `handle_keys`: those of the handles, if they have changed.
        """
        self.admission = admission
        if handle_keys:
            self._api.seal = Seal(handle_keys)
        self._api.polls.admit(admission.again)
        return self.replica.admit(admission.again)

    async def close(self) -> None:
        """End all connections, and close the engine."""
        await self.replica.close()
        if self.dashboard is not None:
            await self.dashboard.close()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one WebSocket or HTTP request, or the server's lifespan."""
        kind = scope["type"]
        if kind == "websocket":
            await self._websocket(scope, receive, send)
        elif kind == "http":
            await self._http(scope, receive, send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        else:
            raise ValueError(f"lockfast does not serve {kind!r}")

    async def _websocket(self, scope: Message, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        admission = self.admission
        caller = admission.caller(scope)
        if not isinstance(caller, Caller):
            await self._refuse(scope, send, caller)
        elif _path(scope) != CONNECT:
            await self._refuse(scope, send, NOT_FOUND)
        elif self.replica.draining:
            await self._refuse(scope, send, UNAVAILABLE)
        elif caller.usage is not None and caller.usage.crowded(1):
            await self._refuse(scope, send, TOO_MANY)
        elif self.replica.load.overloaded and RETURNS not in scope["headers"]:
            after = ceil(self.replica.load.refuse(CONNECTIONS).after)
            await self._refuse(scope, send, UNAVAILABLE, [(b"retry-after", b"%d" % after)])
        else:
            await send({"type": "websocket.accept"})
            if self.admission is not admission:  # the configuration was read again meanwhile
                again = self.admission.again(caller)
                if again is None:
                    await send({"type": "websocket.close", "code": DENIED})
                    return
                caller = again
            direct = (scope.get("extensions") or {}).get(DIRECT)
            if direct is None:
                await WebSocket(self.replica, receive, send, caller).run()
            else:
                direct(self.replica, caller)

    def _rules(self) -> Admission:
        return self.admission

    async def _refuse(self, scope: Message, send: Send, status: int, fields: Fields = ()) -> None:
        self.replica.figures.refused.counts[str(status),] += 1
        await _refuse(scope, send, status, fields)

    async def _http(self, scope: Message, receive: Receive, send: Send) -> None:
        path = _path(scope)
        if path.startswith(API) or path == OPENAPI:
            await serve(self._api, path, self._rules, scope, receive, send)
            return
        if self.dashboard is not None and (path == WEB or path.startswith(f"{WEB}/")):
            await self.dashboard(scope, receive, send)
            return
        if path == JWKS:  # for everybody: it has only public keys
            await self._keys(scope, send)
            return
        status = await self._status(scope)
        kind, body = b"text/plain", b""
        if status == OK and path == METRICS:
            kind, body = TYPE, self.page().encode()
        else:
            body = TEXTS.get(status, b"")
        self.replica.figures.replied(path if path in PAGES else OTHER, status)
        length = b"content-length", b"%d" % len(body)
        # Without `close`, a client could begin a second request and never end it.
        fields = [(b"content-type", kind), length, (b"connection", b"close")]
        await _respond(send, "http.response", status, fields, body)

    async def _keys(self, scope: Message, send: Send) -> None:
        signing = self.replica.signing
        status = NOT_FOUND if signing is None else OK
        if scope["method"] not in {"GET", "HEAD"}:
            status = NOT_ALLOWED
        body = signing.jwks if signing is not None and status == OK else b""
        self.replica.figures.replied(JWKS, status)
        fields = [
            (b"content-type", b"application/jwk-set+json"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"public, max-age=%d" % KEPT),
            (b"connection", b"close"),
        ]
        await _respond(send, "http.response", status, fields, body)

    async def _status(self, scope: Message) -> int:
        path = _path(scope)
        if not self.admission.allowed(scope):
            return FORBIDDEN
        if path == METRICS:
            caller = self.admission.caller(scope)
            if not isinstance(caller, Caller):
                return caller
        if path not in PAGES:
            return NOT_FOUND
        if scope["method"] not in {"GET", "HEAD"}:
            return NOT_ALLOWED
        return OK if path != READY or await self.replica.ready() else UNAVAILABLE

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """Close the replica at the server's end. A mounted application never gets here."""
        while True:
            kind = (await receive())["type"]
            if kind == "lifespan.shutdown":
                await self.close()
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return


def _path(scope: Message) -> str:
    """Return the path below the place where the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


async def _refuse(scope: Message, send: Send, status: int, fields: Fields) -> None:
    """Refuse a WebSocket. A server without the extension answers 403."""
    if "websocket.http.response" in (scope.get("extensions") or {}):
        # No Content-Length: uvicorn 0.35 adds a second one, which clients reject.
        await _respond(send, "websocket.http.response", status, list(fields), b"")
    else:
        await send({"type": "websocket.close"})


async def _respond(send: Send, kind: str, status: int, headers: Fields, body: bytes) -> None:
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})
