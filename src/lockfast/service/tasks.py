"""The tasks of a replica: keeps them until they end, because the event loop does not."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any


class Tasks:
    """A set of running tasks."""

    def __init__(self) -> None:
        """Begin without tasks."""
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task, without a context: it serves several clients."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(work, context=contextvars.Context())
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def end(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the tasks to end, then cancel them."""
        running = [task for task in self._running if task is not asyncio.current_task()]
        if running:
            await asyncio.wait(running, timeout=timeout)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
