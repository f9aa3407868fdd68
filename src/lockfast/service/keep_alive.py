"""Connections of HTTP clients between two requests: how long they may rest, and how many do.

A connection that rests keeps a file descriptor and some memory. The time counts from the end of the
last reply to the end of the head of the next request, so a client that sends a head slowly, or that
does not read a reply, is ended as one that sends nothing.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

LIMIT = 60.0  # seconds
MOST = 2_048  # connections
STUCK = 30.0  # seconds for which a client may read nothing of a reply
CHECK = 1.0  # seconds between two looks


class Rested(Protocol):
    """A connection."""

    def abort(self) -> None:
        """End it at once."""


class Resting:
    """The connections that rest, the one that has rested for longest first.

    One timer serves all of them: a timer each would cost as much as the rest of this.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._since: dict[Rested, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._since)

    def add(self, connection: Rested) -> None:
        """Begin to limit a connection. If there are too many, end the one that is here longest."""
        loop = asyncio.get_running_loop()
        self._since[connection] = loop.time()
        if len(self._since) > MOST:
            self._end(next(iter(self._since)))
        if self._timer is None:
            self._timer = loop.call_later(CHECK, self._look)

    def remove(self, connection: Rested) -> None:
        """Forget a connection that rests no more."""
        self._since.pop(connection, None)

    def _look(self) -> None:
        """End those whose time is over."""
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._since:
            connection, since = next(iter(self._since.items()))
            if loop.time() - since < LIMIT:
                self._timer = loop.call_later(CHECK, self._look)
                return
            self._end(connection)

    def _end(self, connection: Rested) -> None:
        self.remove(connection)
        connection.abort()
