"""The asyncio colour: a few connections for all tasks.

A socket is waited for by callbacks, not by a reader task: `asyncio.run` cancels every task on
Ctrl-C, and a cancelled reader would hang the bodies whose release needs it (TRAPS 52).
"""

from __future__ import annotations

import asyncio
import socket

from lockfast.engines.postgres.address import Address
from lockfast.engines.postgres.link import READ, WRITE, Link, Row
from lockfast.engines.postgres.wire import Wire
from lockfast.errors import EngineUnavailable
from lockfast.runtime.base import Bell, Clock

AT_ONCE = 10  # requests under way; the others wait for a connection


class AioWire(Wire):
    """Connections of an asyncio client."""

    def __init__(self, address: Address, ear: Address | None, bell: Bell, clock: Clock) -> None:
        """Belong to the running loop."""
        super().__init__(address, ear, bell, clock)
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def call(self, sql: bytes, deadline: float, *, heart: bool = False) -> list[Row]:
        """Run statements, when it is this task's turn; the heart does not wait for one."""
        if heart:
            return await super().call(sql, deadline, heart=True)
        if self._turn.locked():
            try:
                async with asyncio.timeout(max(deadline - self._now(), 0.0)):
                    await self._turn.acquire()
            except TimeoutError as error:
                raise EngineUnavailable("no connection was free in time", sent=False) from error
        else:
            await self._turn.acquire()
        try:
            return await super().call(sql, deadline)
        finally:
            self._turn.release()

    async def _ready(self, link: Link, events: int, deadline: float) -> bool:
        descriptor = link.fileno()
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
                infos = await self._loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError:  # a timeout is one too
            return []
        return [str(info[4][0]) for info in infos]
