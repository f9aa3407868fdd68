"""The blocking transport: each calling thread waits for the connection that it uses."""

from __future__ import annotations

import select
from socket import SOCK_STREAM, getaddrinfo

from lockfast.engines.postgres.steps import READ, WRITE, Socket
from lockfast.engines.postgres.transport import Transport

EVENTS = {READ: select.POLLIN, WRITE: select.POLLOUT, READ | WRITE: select.POLLIN | select.POLLOUT}


class ThreadTransport(Transport):
    """The connections of a blocking client: one for each calling thread, ten at most, and one for
    the heart.
    """

    async def _ready(self, socket: Socket, events: int, deadline: float) -> bool:
        poll = select.poll()
        poll.register(socket.fileno(), EVENTS[events])
        return bool(poll.poll(max(deadline - self._now(), 0.0) * 1000))

    async def _look_up(self, host: str, deadline: float) -> list[str]:  # noqa: ARG002  # getaddrinfo has no timeout
        try:
            infos = getaddrinfo(host, None, type=SOCK_STREAM)
        except (OSError, UnicodeError):
            return []
        return [str(info[4][0]) for info in infos]
