"""The asyncio transport: a few connections for all tasks.

Callbacks of the event loop wait for a socket, and no reader task does. `asyncio.run` cancels every
task on Ctrl-C. Without the reader, the bodies whose release needs it would hang (trap 52).
"""

from __future__ import annotations

import asyncio
from socket import SOCK_STREAM

from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.steps import READ, WRITE
from lockfast.engines.mysql.transport import Transport
from lockfast.engines.mysql.url import Address
from lockfast.runtime.base import Bell, Clock, Turns


class AioTransport(Transport):
    """The connections of an asyncio client."""

    def __init__(self, address: Address, bell: Bell, turns: Turns, clock: Clock) -> None:
        """Bind to the running event loop."""
        super().__init__(address, bell, turns, clock)
        self._loop = asyncio.get_running_loop()

    async def _ready(self, link: Link, events: int, deadline: float) -> bool:
        descriptor, loop = link.fileno(), self._loop
        ready: asyncio.Future[bool] = loop.create_future()

        def tell(in_time: bool) -> None:  # noqa: FBT001  # a callback's argument
            if not ready.done():
                ready.set_result(in_time)

        left = max(deadline - self.now(), 0.0)
        timer = loop.call_later(left, tell, False)  # noqa: FBT003  # see above
        watched = []
        if events & READ:
            loop.add_reader(descriptor, tell, True)  # noqa: FBT003  # see above
            watched.append(loop.remove_reader)
        if events & WRITE:
            loop.add_writer(descriptor, tell, True)  # noqa: FBT003  # see above
            watched.append(loop.remove_writer)
        try:
            return await ready
        finally:
            timer.cancel()
            for forget in watched:
                forget(descriptor)

    async def _look_up(self, host: str, deadline: float) -> list[str]:
        try:
            async with asyncio.timeout(deadline - self.now()):
                infos = await self._loop.getaddrinfo(host, None, type=SOCK_STREAM)
        except (OSError, UnicodeError):  # TimeoutError is an OSError
            return []
        return [str(info[4][0]) for info in infos]
