"""Logins that are under way, which may take longer than the call that began them.

A call has a quarter of a second, or a sixth of a ttl, and a login takes several round trips. If a
call that is late ended its login, no call would ever have a connection to a server that is busy:
all of them would begin logins, which keep the server busy. A server also blocks a host that has
broken off a hundred logins. So the next call continues a login that is late, or whose caller was
cancelled: many programs limit a call by `asyncio.timeout`.
"""

from __future__ import annotations

from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.url import Place
from lockfast.engines.sql.steps import Steps
from lockfast.runtime.base import Clock

STALLED = 1.0
"""Seconds after its last step from which a login is given up: the network may be broken, and a new
connection does not wait for what TCP sends again."""


class Attempt:
    """A connection that is being opened."""

    def __init__(self, link: Link, steps: Steps, clock: Clock) -> None:
        """Begin nothing yet."""
        self.link = link
        self.events = 0
        """What the next step waits for."""
        self.done = False
        self._steps = steps
        self._now = clock
        self._stepped = clock()
        self._failed = False

    def step(self) -> None:
        """Take the next step. It is time for that when one of the events has happened."""
        self._failed = True  # until the step has ended, which Ctrl-C may break off too
        try:
            self.events = next(self._steps)
        except StopIteration:
            self.done = True
        self._failed = False
        self._stepped = self._now()

    @property
    def hopeful(self) -> bool:
        """Whether the server has accepted the connection, and the login goes on."""
        if self.done or self._failed:
            return False
        return self.link.dialed and self._now() < self._stepped + STALLED


class Attempts:
    """Logins that nobody waits for. Threads share it: each step is one operation."""

    def __init__(self) -> None:
        """Begin empty."""
        self._waiting: dict[tuple[Place, str], list[Attempt]] = {}

    def take(self, place: Place, host: str) -> Attempt | None:
        """Take a login at this address of a server. Close those that have stalled."""
        waiting = self._waiting.get((place, host), [])
        while True:
            try:
                attempt = waiting.pop()
            except IndexError:
                return None
            if attempt.hopeful:
                return attempt
            attempt.link.close()

    def keep(self, attempt: Attempt) -> None:
        """Leave a login that was not finished to the next call, if there is hope for it."""
        link = attempt.link
        if attempt.hopeful:
            self._waiting.setdefault((link.place, link.host), []).append(attempt)
        else:
            link.close()

    def emptied(self) -> list[Link]:
        """Take all connections."""
        links = []
        for waiting in list(self._waiting.values()):
            while True:
                try:
                    links.append(waiting.pop().link)
                except IndexError:
                    break
        return links
