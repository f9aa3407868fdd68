"""A replica of the service in this process, on a free port, in front of an engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import Clock, now
from lockfast.service.config import Config
from lockfast.service.heart import WINDOW
from lockfast.service.replica import Replica
from lockfast.service.server import Server

PATIENCE = 20.0  # seconds


class Service:
    """A replica whose event loop runs in a thread."""

    def __init__(
        self,
        make: Callable[[Aio], Callable[[], Engine]],
        clock: Clock = now,
        *,
        window: float = WINDOW,
    ) -> None:
        """Start nothing yet. `make`: returns what makes the engine for a runtime."""
        self._make = make
        self._clock = clock
        self._window = window
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._server: Server | None = None

    def __enter__(self) -> Self:
        """Start it, and wait until it listens."""
        self._thread.start()
        assert self._started.wait(PATIENCE), "the service did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it without waiting for clients."""
        assert self._server is not None
        self._server.force_exit = True
        self._server.should_exit = True
        self._thread.join(PATIENCE)

    @property
    def url(self) -> str:
        """The URL for clients."""
        assert self._server is not None
        host, port = self._server.address
        return f"lockfast://{host}:{port}"

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        runtime = Aio(self._clock)
        make = self._make(runtime)
        replica = Replica(make, runtime, window=self._window)
        self._server = server = Server(replica, Config(port=0))
        watch = asyncio.create_task(self._watch(server))
        await server.serve()
        watch.cancel()

    async def _watch(self, server: Server) -> None:
        while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
            await asyncio.sleep(0.005)
        self._started.set()
