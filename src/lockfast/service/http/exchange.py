"""One exchange of a request and its answer, as ASGI has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Protocol

from lockfast.service.access import allowed, values
from lockfast.service.http import body
from lockfast.service.http.answer import UNAUTHORIZED, Answer, problem
from lockfast.service.http.api import Api, idempotency_key
from lockfast.service.http.caller import Caller
from lockfast.service.http.messages import LARGEST_BODY, encode
from lockfast.service.http.openapi import document
from lockfast.service.http.presence import Presence
from lockfast.service.http.routes import BY_PATH, OPENAPI, Route
from lockfast.service.http.shapes import BadRequest
from lockfast.service.keys import Keys
from lockfast.service.websocket import Message, Receive, Send

OWN = "lockfast.http"
"""The extension with which our own server tells what it knows of a connection: see `Line`."""
Status = Callable[[int], object]


class Line(Protocol):
    """A connection of our own server."""

    def admit(self) -> None:
        """Serve it from now on as one of a client, and not of a stranger."""

    def gone(self) -> bool:
        """Return whether the client has left."""
        ...


async def serve(  # noqa: PLR0913, PLR0917  # what ASGI has, and what the application has
    api: Api, path: str, keys: Keys, refused: Status, scope: Message, receive: Receive, send: Send
) -> None:
    """Serve a request of the API. `refused` counts those that are not admitted."""
    line: Line | None = (scope.get("extensions") or {}).get(OWN)
    key = keys.find(values(scope["headers"], b"authorization")) if keys else None
    route, denied = _admitted(path, scope, keyed=bool(keys), known=key is not None)
    if denied is not None:
        refused(denied.status)
        await _send(send, denied, close=True)
        return
    if line is not None:
        line.admit()
    if route is None:
        await _respond(send, HTTPStatus.OK, document(), {}, close=False)
        return
    try:
        content = b"" if route.body is None else await body.read(scope["headers"], receive)
        caller = Caller(
            subject="" if key is None else keys.name(key),
            key=key,
            address=(scope.get("client") or ("",))[0],
            idempotency=idempotency_key(scope["headers"]),
            presence=Presence(receive, None if line is None else line.gone),
        )
    except body.ClientGone:
        return
    except body.TooLarge:
        why = f"the body of a request has at most {LARGEST_BODY} bytes"
        await _send(
            send, problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "oversized", why), close=True
        )
        return
    except body.TooSlow:
        why = f"the body did not come within {body.LIMIT:g} seconds"
        await _send(send, problem(HTTPStatus.REQUEST_TIMEOUT, "slow", why), close=True)
        return
    except BadRequest as error:
        await _send(send, problem(HTTPStatus.BAD_REQUEST, "malformed", str(error)), close=False)
        return
    try:
        answer = await api.answer(route, scope["query_string"], content, caller)
    finally:
        caller.presence.end()
    await _send(send, answer, close=api.leaving)


def _admitted(
    path: str, scope: Message, *, keyed: bool, known: bool
) -> tuple[Route | None, Answer | None]:
    """Return the route of a request, or the answer that refuses it. The order is that of the
    WebSocket: a stranger learns nothing about the paths.
    """
    if not allowed(scope["headers"], keyed=keyed):
        return None, problem(HTTPStatus.FORBIDDEN, "forbidden", "pages in browsers are refused")
    if keyed and not known:
        return None, UNAUTHORIZED
    route = BY_PATH.get(path)
    if route is None and path != OPENAPI:
        return None, problem(HTTPStatus.NOT_FOUND, "not-found", "there is no such request")
    method = "GET" if route is None else route.method
    # HEAD is GET without the body, which the server leaves out.
    if scope["method"] != method and (scope["method"], method) != ("HEAD", "GET"):
        answer = problem(HTTPStatus.METHOD_NOT_ALLOWED, "method", f"the method must be {method}")
        return None, answer._replace(headers={"allow": method})
    return route, None


async def _send(send: Send, answer: Answer, *, close: bool) -> None:
    content = encode(answer.body) + b"\n"  # for terminals
    await _respond(send, answer.status, content, answer.headers, close=close)


async def _respond(
    send: Send, status: int, content: bytes, headers: Mapping[str, str], *, close: bool
) -> None:
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(content)),
        (b"cache-control", b"no-store"),
        *((name.encode(), value.encode()) for name, value in headers.items()),
    ]
    if close:
        fields.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": content})
