"""The ASGI middleware. It guards HTTP requests, and passes websockets on unchecked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from lockfast.errors import StaleToken
from lockfast.guards.http.door import Door, Refused
from lockfast.guards.http.header import HEADER, SHOWN
from lockfast.guards.http.problem import Problem, problem
from lockfast.runtime.aio import Aio

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
_NAME = HEADER.lower().encode()


class FencingMiddleware:
    """Rejects requests with a stale token, by the rules of its `Door`.

    The application finds the values of the token in `scope["lockfast.shown"]`.

    Args:
        app: The application to wrap.
        door: The rules.

    Example:
        ::

            door = Door(lambda method, path: f"invoice:{path.rpartition('/')[2]}", marks=None)
            application = FencingMiddleware(application, door)
    """

    def __init__(self, app: App, door: Door) -> None:
        """Wrap an application."""
        self._app = app
        self._door = door
        self._runtime = Aio()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._serve(scope, receive, sending)
        except Refused as refusal:
            await _answer(send, refusal.response)
        except StaleToken as stale:
            if begun:
                raise
            await _answer(send, problem(stale))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        values = [value.decode("latin-1") for name, value in scope["headers"] if name == _NAME]
        at = self._door.look(scope["method"], scope["path"], values, scope)
        if at is None:
            await self._app(scope, receive, send)
            return
        await self._door.enter(at, self._runtime)
        inner = {**scope, SHOWN: at}
        try:
            await self._app(inner, receive, send)
        finally:
            self._door.leave(at)
            self._door.check_order(scope, inner)


async def _answer(send: Send, response: Problem) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in response.headers]
    start = {"type": "http.response.start", "status": int(response.status), "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": response.body})
