"""An ASGI application under uvicorn, in a thread of the test."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Any, Self

import uvicorn

from tests.servers import wait_until

App = Any  # uvicorn checks it no further


class Site:
    """One server at a free port of loopback. `with` starts and ends it."""

    def __init__(self, app: App) -> None:
        """Take the application."""
        self.paths: list[str] = []
        """The path of each request, in order."""
        self._app = app
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(
            self._noted,
            interface="asgi3",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=2,
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))

    async def _noted(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  # of ASGI
        if scope["type"] == "http":
            self.paths.append(f"{scope['method']} {scope['path']}")
        await self._app(scope, receive, send)

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        wait_until(lambda: self._server.started, "the site serves", 30)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""
        self._server.should_exit = True
        self._thread.join(30)
        self._socket.close()
