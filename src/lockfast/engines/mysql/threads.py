"""The blocking transport: each calling thread waits for the connection that it uses."""

from __future__ import annotations

from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.transport import Transport
from lockfast.engines.sql import polling


class ThreadTransport(Transport):
    """The connections of a blocking client: one for each calling thread, ten at most, one for the
    heart, and one for the ear.
    """

    async def _ready(self, link: Link, events: int, deadline: float) -> bool:
        return polling.ready(link.fileno(), events, deadline - self.now())

    async def _look_up(self, host: str, deadline: float) -> list[str]:  # noqa: ARG002  # it has no timeout
        return polling.look_up(host)
