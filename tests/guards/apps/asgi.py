"""The ASGI application, for uvicorn."""

from __future__ import annotations

import asyncio

from lockfast.guards.http import SHOWN
from lockfast.guards.http.asgi import FencingMiddleware, Message, Receive, Scope, Send
from tests.guards.apps import kept, own, read, write

parked: list[asyncio.Event] = []


async def body_of(receive: Receive) -> bytes:
    """Read a request's body."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def handle(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one request."""
    assert scope["type"] == "http"
    path, at = scope["path"], scope.get(SHOWN)
    body = await body_of(receive)
    if path == "/parked":
        body = str(len(parked)).encode()
    elif path == "/go":
        for event in parked:
            event.set()
        parked.clear()
    elif scope["method"] == "GET":
        body = read(path, at)
    else:
        if b"park" in scope["query_string"]:
            event = asyncio.Event()
            parked.append(event)
            await event.wait()
        write(path, body, at)
    start: Message = {"type": "http.response.start", "status": 200, "headers": []}
    await send(start)
    await send({"type": "http.response.body", "body": body})


app = FencingMiddleware(FencingMiddleware(handle, own()), kept())
