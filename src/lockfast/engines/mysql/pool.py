"""The idle connections for one kind of call. Threads share it: each step is one operation."""

from __future__ import annotations

from lockfast.engines.mysql.link import Link
from lockfast.runtime.base import Clock

NEVER = float("-inf")
FRESH = 30.0
"""Seconds after which an idle connection is replaced: a NAT may have dropped it without notice."""
RECENT = 1.0  # seconds after which the socket of an idle connection is checked before its next use


class Pool:
    """Idle connections. The one that was used last is taken first."""

    def __init__(self, clock: Clock) -> None:
        """Begin empty."""
        self._now = clock
        self._links: list[Link] = []
        self._doubted = NEVER

    def take(self) -> Link | None:
        """Take a connection that can be used. Close those that cannot."""
        while True:
            try:
                link = self._links.pop()
            except IndexError:
                return None
            age = self._now() - link.used
            if link.used >= self._doubted and age < FRESH and (age < RECENT or link.alive()):
                return link
            link.close()

    @property
    def empty(self) -> bool:
        """Whether it has no connection."""
        return not self._links

    def put(self, link: Link) -> None:
        """Keep a connection whose exchange has just ended."""
        link.used = self._now()
        self._links.append(link)

    def doubt(self, since: float) -> None:
        """Use no connection again whose last exchange ended before `since`. Another one was sent a
        request then, and it failed: if the server is down, these would only fail one by one. A
        server that has answered meanwhile is up, and slow at most.
        """
        self._doubted = max(since, self._doubted)

    def emptied(self) -> list[Link]:
        """Take all connections."""
        links = []
        while True:
            try:
                links.append(self._links.pop())
            except IndexError:
                return links
