"""Whether the client of a request is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lockfast.service.websocket import Receive


class Presence:
    """The client of one request, whose body was read."""

    def __init__(self, receive: Receive, gone: Callable[[], bool] | None) -> None:
        """Take how the server tells it. `gone`: what our own server can say at once. In another
        server a task must wait for it.
        """
        self._receive = receive
        self._look = gone
        self._left = False
        self._then: Callable[[], object] = bool
        self._watcher: asyncio.Task[None] | None = None
        if gone is None:
            self._start()

    @property
    def gone(self) -> bool:
        """Whether the client has left, so that no reply reaches it."""
        return self._left or (self._look is not None and self._look())

    def watch(self, then: Callable[[], object]) -> None:
        """Call `then` when the client leaves."""
        self._then = then
        if self._watcher is None:
            self._start()

    def end(self) -> None:
        """Watch no more."""
        self._then = bool
        if self._watcher is not None:
            self._watcher.cancel()

    def _start(self) -> None:
        self._watcher = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left = True
        self._then()
