"""The blocking transport: each calling thread waits for the connection that it uses."""

from __future__ import annotations

from lockfast.engines.postgres.transport import Transport
from lockfast.engines.sql import polling
from lockfast.engines.sql.steps import Socket


class ThreadTransport(Transport):
    """The connections of a blocking client: one for each calling thread, ten at most, and one for
    the heart.
    """

    async def _ready(self, socket: Socket, events: int, deadline: float) -> bool:
        return polling.ready(socket.fileno(), events, deadline - self._now())

    async def _look_up(self, host: str, deadline: float) -> list[str]:  # noqa: ARG002  # it has no timeout
        return polling.look_up(host)
