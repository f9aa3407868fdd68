"""The blocking transport: each calling thread waits for the connection that it uses."""

from __future__ import annotations

import select
from socket import SOCK_STREAM, getaddrinfo

from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.steps import READ, WRITE
from lockfast.engines.mysql.transport import Transport

EVENTS = {READ: select.POLLIN, WRITE: select.POLLOUT, READ | WRITE: select.POLLIN | select.POLLOUT}


class ThreadTransport(Transport):
    """The connections of a blocking client: one for each calling thread, ten at most, one for the
    heart, and one for the ear.
    """

    async def _ready(self, link: Link, events: int, deadline: float) -> bool:
        poll = select.poll()
        poll.register(link.fileno(), EVENTS[events])
        return bool(poll.poll(max(deadline - self.now(), 0.0) * 1000))

    async def _look_up(self, host: str, deadline: float) -> list[str]:  # noqa: ARG002  # getaddrinfo has no timeout
        try:
            infos = getaddrinfo(host, None, type=SOCK_STREAM)
        except (OSError, UnicodeError):
            return []
        return [str(info[4][0]) for info in infos]
