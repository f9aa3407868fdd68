"""One exchange of a request and its answer, as ASGI has them."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

from msgspec import Raw

from lockfast.service import caller as callers
from lockfast.service.admission import UNAUTHORIZED as STRANGER
from lockfast.service.admission import Admission
from lockfast.service.figures import OTHER
from lockfast.service.http import body
from lockfast.service.http.answer import UNAUTHORIZED, Answer, problem
from lockfast.service.http.api import Api, idempotency_key
from lockfast.service.http.caller import Caller
from lockfast.service.http.messages import LARGEST_BODY, encode
from lockfast.service.http.openapi import document
from lockfast.service.http.presence import Presence
from lockfast.service.http.routes import BY_PATH, OPENAPI, Route
from lockfast.service.http.shapes import BadRequest
from lockfast.service.websocket import Message, Receive, Send

OWN = "lockfast.http"
"""The extension with which our own server tells what it knows of a connection: see `Line`."""
Fields = list[tuple[bytes, bytes]]


class Line(Protocol):
    """A connection of our own server."""

    def admit(self) -> None:
        """Serve it from now on as one of a client, and not of a stranger."""

    def gone(self) -> bool:
        """Return whether the client has left."""
        ...


async def serve(  # noqa: PLR0913, PLR0917  # what ASGI has, and what the application has
    api: Api,
    path: str,
    admission: Callable[[], Admission],
    scope: Message,
    receive: Receive,
    send: Send,
) -> None:
    """Serve a request of the API. `admission` returns the present one."""
    answer, close = await _answer(api, path, admission, scope, receive)
    route = path if path in BY_PATH or path == OPENAPI else OTHER
    api.figures.replied(route, 0 if answer is None else answer.status)
    if answer is not None:
        content, fields = encoded(answer, close=close)
        await send({"type": "http.response.start", "status": answer.status, "headers": fields})
        await send({"type": "http.response.body", "body": content})


async def _answer(
    api: Api, path: str, admission: Callable[[], Admission], scope: Message, receive: Receive
) -> tuple[Answer | None, bool]:
    """Return the answer to a request, and whether the connection ends with it. None: the client
    has left.
    """
    line: Line | None = (scope.get("extensions") or {}).get(OWN)
    refused = api.figures.refused.counts
    rules = admission()
    who = rules.caller(scope)
    route, denied = _admitted(path, scope, who)
    if denied is not None:
        refused[str(denied.status),] += 1
        return denied, True
    if line is not None:
        line.admit()
    if route is None:
        return Answer(HTTPStatus.OK, Raw(document())), False
    try:
        content = b"" if route.body is None else await body.read(scope["headers"], receive)
        now = admission()
        known = who if now is rules or not isinstance(who, callers.Caller) else now.again(who)
        if not isinstance(known, callers.Caller):  # the configuration was read again meanwhile
            refused[str(UNAUTHORIZED.status),] += 1
            return UNAUTHORIZED, True
        caller = Caller(
            who=known,
            idempotency=idempotency_key(scope["headers"]),
            presence=Presence(receive, None if line is None else line.gone),
        )
    except body.ClientGone:
        return None, True
    except (body.TooLarge, body.TooSlow, BadRequest) as error:
        # What is left of a body would be read as the next request.
        return _malformed(error), not isinstance(error, BadRequest)
    try:
        answer = await api.answer(route, scope["query_string"], content, caller)
    finally:
        caller.presence.end()
    return answer, api.leaving


def _malformed(error: Exception) -> Answer:
    """Return the answer to a request that cannot be read."""
    if isinstance(error, body.TooLarge):
        why = f"the body of a request has at most {LARGEST_BODY} bytes"
        return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "oversized", why)
    if isinstance(error, body.TooSlow):
        why = f"the body did not come within {body.LIMIT:g} seconds"
        return problem(HTTPStatus.REQUEST_TIMEOUT, "slow", why)
    return problem(HTTPStatus.BAD_REQUEST, "malformed", str(error))


def _admitted(
    path: str, scope: Message, who: callers.Caller | int
) -> tuple[Route | None, Answer | None]:
    """Return the route of a request, or the answer that refuses it. The order is that of the
    WebSocket: a stranger learns nothing about the paths.
    """
    if who == STRANGER:
        return None, UNAUTHORIZED
    if not isinstance(who, callers.Caller):
        why = "pages in browsers, and clients without a subject, are refused"
        return None, problem(HTTPStatus.FORBIDDEN, "forbidden", why)
    route = BY_PATH.get(path)
    if route is None and path != OPENAPI:
        why = f"there is no such request: GET {OPENAPI} describes those that there are"
        return None, problem(HTTPStatus.NOT_FOUND, "not-found", why)
    method = "GET" if route is None else route.method
    # HEAD is GET without the body, which the server leaves out.
    if scope["method"] != method and (scope["method"], method) != ("HEAD", "GET"):
        answer = problem(HTTPStatus.METHOD_NOT_ALLOWED, "method", f"the method must be {method}")
        return None, answer._replace(headers={"allow": method})
    return route, None


def encoded(answer: Answer, *, close: bool) -> tuple[bytes, Fields]:
    """Return the body and the header fields of an answer."""
    content = encode(answer.body) + b"\n"  # for terminals
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(content)),
        (b"cache-control", b"no-store"),
        *((name.encode(), value.encode()) for name, value in answer.headers.items()),
    ]
    if close:
        fields.append((b"connection", b"close"))
    return content, fields
