"""The asyncio transport: a few connections for all tasks."""

from __future__ import annotations

import asyncio

from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.transport import Transport
from lockfast.engines.mysql.url import Address
from lockfast.engines.sql import watching
from lockfast.runtime.base import Bell, Clock, Turns


class AioTransport(Transport):
    """The connections of an asyncio client."""

    def __init__(self, address: Address, bell: Bell, turns: Turns, clock: Clock) -> None:
        """Bind to the running event loop."""
        super().__init__(address, bell, turns, clock)
        self._loop = asyncio.get_running_loop()

    async def _ready(self, link: Link, events: int, deadline: float) -> bool:
        return await watching.ready(self._loop, link.fileno(), events, deadline - self.now())

    async def _look_up(self, host: str, deadline: float) -> list[str]:
        return await watching.look_up(self._loop, host, deadline - self.now())
