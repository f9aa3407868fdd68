"""Judges whether a replica is overloaded, and says what its clients are to do about it.

A replica that takes on more than it can do answers everybody too late: renewals wait behind claims,
and leases are lost. So it refuses what is new, in the open and for a moment: connections of clients
that it has not served before, and claims. Renewals and releases it never refuses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from lockfast.errors import EngineUnavailable
from lockfast.service.figures import Figures

log = logging.getLogger("lockfast")
RATE = 1_000.0
"""Connections a second that clients are asked to stay below. One core accepts about 1,000 with TLS
and twice as many without, and renewals need the rest of it."""
LONGEST_SPREAD = 15.0
"""Seconds over which clients connect again, at most. A waiter, and a lease of 30 s, connect sooner
because they have to be renewed, and `TimeoutStopSec` of the unit allows no more for a drain."""
PERIOD = 0.25  # seconds between two looks at the event loop
LATE = 0.5
"""Seconds by which the event loop is late while it has more to do than it can. A renewal of a lease
of 3 s has as much time."""
TIMES = 4
"""How many looks in a row must find it late. One pause of the process is no overload."""
EARLY = 0.1  # seconds: the event loop is in time again
CALM = 8  # looks in a row that find it in time, until the replica accepts everything again
WAITING = 10_000
"""Claims that wait for the engine, at most: what it does in two seconds. They are bounded at any
time, because clients send more of them while an engine does not answer."""
SOONEST = 1.0  # seconds after which something that was refused may come again
LATEST = 10.0  # the same, at most


class Load:
    """What a replica has to do, by what it can measure itself."""

    def __init__(self, figures: Figures, connections: Callable[[], int]) -> None:
        """Begin without load. `connections`: returns how many clients are connected."""
        self._figures = figures
        self._connections = connections
        self.waiting: Callable[[], int] = int
        """Returns how many claims wait for the engine."""
        self.overloaded = False
        self._late = 0
        """How many looks in a row have found the event loop late."""
        self._calm = 0
        """How many have found it in time."""
        self._next = 0.0
        """When the one that was refused last may come again."""
        self._refused = 0
        """How many were refused since the overload began."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Watch the event loop."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(PERIOD, self._look, loop.time() + PERIOD)

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def spread(self) -> float:
        """Return over how many seconds the clients of this replica are to connect to others."""
        return min(self._connections() / RATE, LONGEST_SPREAD)

    def full(self) -> bool:
        """Return whether a claim must be refused now."""
        return self.overloaded or self.waiting() >= WAITING

    def refuse(self, what: str) -> EngineUnavailable:
        """Return the error for a connection or a claim that is refused. `what`: which it is. Those
        that are refused may come again one after the other.
        """
        self._figures.shed.counts[what,] += 1
        self._refused += 1
        now = asyncio.get_running_loop().time()
        self._next = min(max(self._next + 1.0 / RATE, now + SOONEST), now + LATEST)
        return EngineUnavailable(
            f"this replica is overloaded: try again in {self._next - now:.0f} s",
            sent=False,
            after=self._next - now,
        )

    def _look(self, due: float) -> None:
        late, waiting = asyncio.get_running_loop().time() - due, self.waiting()
        self._late = self._late + 1 if late >= LATE else 0
        self._calm = self._calm + 1 if late < EARLY and waiting < WAITING / 2 else 0
        if not self.overloaded and (self._late >= TIMES or waiting >= WAITING):
            self.overloaded = True
            self._refused = 0
            log.warning(
                "this replica is overloaded: its event loop is %.1f s late, and %d claims wait for "
                "the engine. It refuses new clients and new claims until it has recovered",
                late,
                waiting,
            )
        elif self.overloaded and self._calm >= CALM:
            self.overloaded = False
            log.warning(
                "this replica has recovered: %d connections and claims were refused", self._refused
            )
        self.start()
