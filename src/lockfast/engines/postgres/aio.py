"""The asyncio transport: a few connections for all tasks.

A socket is waited for by callbacks, not by a reader task: `asyncio.run` cancels every task on
Ctrl-C, and a cancelled reader would hang the bodies whose release needs it (trap 52).
"""

from __future__ import annotations

import asyncio
from socket import SOCK_STREAM

from lockfast.engines.postgres.steps import READ, WRITE, Socket
from lockfast.engines.postgres.transport import Transport
from lockfast.engines.postgres.url import Address
from lockfast.runtime.base import Bell, Clock, Turns


class AioTransport(Transport):
    """Connections of an asyncio client."""

    def __init__(
        self, address: Address, ear: Address | None, bell: Bell, turns: Turns, clock: Clock
    ) -> None:
        """Belong to the running loop."""
        super().__init__(address, ear, bell, turns, clock)
        self._loop = asyncio.get_running_loop()

    async def _ready(self, socket: Socket, events: int, deadline: float) -> bool:
        descriptor = socket.fileno()
        ready: asyncio.Future[bool] = self._loop.create_future()

        def tell(in_time: bool) -> None:  # noqa: FBT001  # a callback's argument
            if not ready.done():
                ready.set_result(in_time)

        left = max(deadline - self._now(), 0.0)
        timer = self._loop.call_later(left, tell, False)  # noqa: FBT003  # see above
        if events & READ:
            self._loop.add_reader(descriptor, tell, True)  # noqa: FBT003  # see above
        if events & WRITE:
            self._loop.add_writer(descriptor, tell, True)  # noqa: FBT003  # see above
        try:
            return await ready
        finally:
            timer.cancel()
            if events & READ:
                self._loop.remove_reader(descriptor)
            if events & WRITE:
                self._loop.remove_writer(descriptor)

    async def _look_up(self, host: str, deadline: float) -> list[str]:
        try:
            async with asyncio.timeout(deadline - self._now()):
                infos = await self._loop.getaddrinfo(host, None, type=SOCK_STREAM)
        except (OSError, UnicodeError):  # a timeout is one too
            return []
        return [str(info[4][0]) for info in infos]
