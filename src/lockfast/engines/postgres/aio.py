"""The asyncio transport: a few connections for all tasks."""

from __future__ import annotations

import asyncio

from lockfast.engines.postgres.transport import Transport
from lockfast.engines.postgres.url import Address
from lockfast.engines.sql import watching
from lockfast.engines.sql.steps import Socket
from lockfast.runtime.base import Bell, Clock, Turns


class AioTransport(Transport):
    """The connections of an asyncio client."""

    def __init__(
        self, address: Address, ear: Address | None, bell: Bell, turns: Turns, clock: Clock
    ) -> None:
        """Bind to the running event loop."""
        super().__init__(address, ear, bell, turns, clock)
        self._loop = asyncio.get_running_loop()

    async def _ready(self, socket: Socket, events: int, deadline: float) -> bool:
        return await watching.ready(self._loop, socket.fileno(), events, deadline - self._now())

    async def _look_up(self, host: str, deadline: float) -> list[str]:
        return await watching.look_up(self._loop, host, deadline - self._now())
