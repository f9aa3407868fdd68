"""One exchange of a request and its answer, as ASGI has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Protocol

from lockfast.service import caller as callers
from lockfast.service.admission import UNAUTHORIZED as STRANGER
from lockfast.service.admission import Admission
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
Status = Callable[[int], object]
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
    refused: Status,
    scope: Message,
    receive: Receive,
    send: Send,
) -> None:
    """Serve a request of the API. `admission` returns the present one. `refused` counts requests
    that are not admitted.
    """
    line: Line | None = (scope.get("extensions") or {}).get(OWN)
    rules = admission()
    who = rules.caller(scope)
    route, denied = _admitted(path, scope, who)
    if denied is not None:
        refused(denied.status)
        await _send(send, denied, close=True)
        return
    if line is not None:
        line.admit()
    if route is None:
        content = document()
        await _respond(send, HTTPStatus.OK, content, _fields(content, {}, close=False))
        return
    try:
        content = b"" if route.body is None else await body.read(scope["headers"], receive)
        now = admission()
        known = who if now is rules or not isinstance(who, callers.Caller) else now.again(who)
        if not isinstance(known, callers.Caller):  # the configuration was read again meanwhile
            refused(UNAUTHORIZED.status)
            await _send(send, UNAUTHORIZED, close=True)
            return
        caller = Caller(
            who=known,
            idempotency=idempotency_key(scope["headers"]),
            presence=Presence(receive, None if line is None else line.gone),
        )
    except body.ClientGone:
        return
    except (body.TooLarge, body.TooSlow, BadRequest) as error:
        # What is left of a body would be read as the next request.
        await _send(send, _malformed(error), close=not isinstance(error, BadRequest))
        return
    try:
        answer = await api.answer(route, scope["query_string"], content, caller)
    finally:
        caller.presence.end()
    await _send(send, answer, close=api.leaving)


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
        return None, problem(HTTPStatus.NOT_FOUND, "not-found", "there is no such request")
    method = "GET" if route is None else route.method
    # HEAD is GET without the body, which the server leaves out.
    if scope["method"] != method and (scope["method"], method) != ("HEAD", "GET"):
        answer = problem(HTTPStatus.METHOD_NOT_ALLOWED, "method", f"the method must be {method}")
        return None, answer._replace(headers={"allow": method})
    return route, None


def encoded(answer: Answer, *, close: bool) -> tuple[bytes, Fields]:
    """Return the body and the header fields of an answer."""
    content = encode(answer.body) + b"\n"  # for terminals
    return content, _fields(content, answer.headers, close=close)


async def _send(send: Send, answer: Answer, *, close: bool) -> None:
    await _respond(send, answer.status, *encoded(answer, close=close))


async def _respond(send: Send, status: int, content: bytes, fields: Fields) -> None:
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": content})


def _fields(content: bytes, headers: Mapping[str, str], *, close: bool) -> Fields:
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(content)),
        (b"cache-control", b"no-store"),
        *((name.encode(), value.encode()) for name, value in headers.items()),
    ]
    if close:
        fields.append((b"connection", b"close"))
    return fields
