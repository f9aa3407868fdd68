"""Serves the dashboard to browsers on this machine, until a signal ends it."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import uvicorn

FLUSHING = 2  # seconds for answers that are under way


class Server(uvicorn.Server):
    """uvicorn, which ends with TERM and Ctrl-C as if it had been asked to."""

    def __init__(self, app: Any, ready: Callable[[], object]) -> None:  # noqa: ANN401  # an ASGI application
        """Take the application. `ready` is called when it serves, and signals end it."""
        super().__init__(
            uvicorn.Config(
                app,
                ws="none",
                access_log=False,
                log_config=None,
                log_level=logging.WARNING,
                server_header=False,
                proxy_headers=False,  # any client could send them
                timeout_graceful_shutdown=FLUSHING,
            )
        )
        self._ready = ready
        logging.getLogger("uvicorn").parent = logging.getLogger("lockfast")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()

    def end(self) -> None:
        """End soon."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """End at SIGTERM and SIGINT. uvicorn's own method sends itself the signal again."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
