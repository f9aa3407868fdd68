"""Waiting for a socket, and the look-up of a host's name, in a thread."""

from __future__ import annotations

import select
from socket import SOCK_STREAM, getaddrinfo

from lockfast.engines.sql.steps import READ, WRITE

EVENTS = {READ: select.POLLIN, WRITE: select.POLLOUT, READ | WRITE: select.POLLIN | select.POLLOUT}


def ready(descriptor: int, events: int, left: float) -> bool:
    """Wait until a socket is ready for one of `events`; False if the seconds that are left pass."""
    poll = select.poll()
    poll.register(descriptor, EVENTS[events])
    return bool(poll.poll(max(left, 0.0) * 1000))


def look_up(host: str) -> list[str]:
    """Return the addresses of a host. getaddrinfo has no timeout."""
    try:
        infos = getaddrinfo(host, None, type=SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(info[4][0]) for info in infos]
