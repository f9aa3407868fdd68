"""Removes the claims of clients whose connection has ended, if they have asked for it.

The engine removes a claim only if it belongs to that connection. So a client that has connected
again, here or to another replica, keeps its claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from lockfast.errors import EngineUnavailable
from lockfast.runtime.base import Clock
from lockfast.service.entry import Answer, Entry
from lockfast.service.figures import Figures, outcome
from lockfast.service.kept import Kept, KeptClaims
from lockfast.service.requests import LONGEST_CALL
from lockfast.service.watch import Watch

MOST = 200_000  # claims that are kept, of all connections
PAUSE = 1.0  # seconds after which a claim is removed again, if the engine has not answered


class Disconnects:
    """The connections that have ended, and the timers of their claims."""

    def __init__(
        self, depart: Callable[[Entry], None], clock: Clock, figures: Figures, watch: Watch
    ) -> None:
        """Begin without connections. `depart` sends a claim to the engine."""
        self.room = MOST
        self._depart = depart
        self._now = clock
        self._figures = figures
        self._watch = watch
        self._timers: dict[asyncio.TimerHandle, None] = {}
        self._closed = False

    def begin(self, claims: KeptClaims) -> None:
        """Remove the claims of a connection that has just ended, each when it is time."""
        ended = self._now()
        for departs in {kept.departs for kept in claims.all()}:
            self._later(departs, partial(self._due, claims, departs, ended))

    def _later(self, seconds: float, then: Callable[[], None]) -> None:
        if self._closed:
            return

        def run() -> None:
            self._timers.pop(timer, None)
            then()

        timer = asyncio.get_running_loop().call_later(seconds, run)
        self._timers[timer] = None

    def _due(self, claims: KeptClaims, departs: float, ended: float) -> None:
        left = ended + departs - self._now()
        if left > 0.0:  # uvloop counts from the beginning of the turn in which a timer was started
            self._later(left, partial(self._due, claims, departs, ended))
            return
        now = self._now()
        for kept in claims.all():
            if kept.departs == departs:
                removal = Removal(self, claims, kept, now + kept.ask.shape.ttl)
                self._depart(Entry(kept.ask, now, now + LONGEST_CALL, removal, 0))

    def answered(self, removal: Removal, answer: Answer) -> None:
        """Take the engine's answer to a removal."""
        claims, kept, now = removal.claims, removal.kept, self._now()
        if isinstance(answer, EngineUnavailable) and now < removal.until:
            begin = now + PAUSE
            entry = Entry(kept.ask, begin, begin + LONGEST_CALL, removal, 0)
            self._later(PAUSE, partial(self._depart, entry))
            return
        self._figures.claims.counts["depart", outcome(answer)] += 1
        if answer is True:
            self._watch.departed(claims.caller, kept.ask)
        claims.forget(kept.ask)

    def close(self) -> None:
        """Remove nothing more."""
        self._closed = True
        for timer in self._timers:
            timer.cancel()


class Removal:
    """Takes the engine's answer to the removal of one claim."""

    __slots__ = ("_disconnects", "claims", "kept", "until")

    def __init__(
        self, disconnects: Disconnects, claims: KeptClaims, kept: Kept, until: float
    ) -> None:
        """Wait for the answer. `until`: when the claim has ended in any case."""
        self._disconnects = disconnects
        self.claims = claims
        self.kept = kept
        self.until = until

    def unwanted(self) -> bool:
        """Return False."""
        return False

    def put(self, at: int, answer: Answer) -> None:  # noqa: ARG002  # there is one claim
        """Take the answer."""
        self._disconnects.answered(self, answer)
