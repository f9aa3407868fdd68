"""Copies of requests, each delivered late on a connection of its own."""

import asyncio
import contextlib

_CHUNK = 65536
_PATIENCE = 5.0


class Copies:
    """Those that are under way. It lives in the proxy's loop."""

    def __init__(self) -> None:
        self.answered = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, target: tuple[str, int], request: bytes, after: float) -> None:
        """Send one, so much later; it outlives its client's connection."""
        task = asyncio.create_task(self._deliver(target, request, after))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up those under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _deliver(self, target: tuple[str, int], request: bytes, after: float) -> None:
        await asyncio.sleep(after)
        # The server may be down or out of reach by then.
        with contextlib.suppress(OSError):
            async with asyncio.timeout(_PATIENCE):
                reader, writer = await asyncio.open_connection(*target)
                try:
                    writer.write(request)
                    self.answered += bool(await reader.read(_CHUNK))
                finally:
                    writer.close()
