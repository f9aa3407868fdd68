"""When the heart renews which claim, and until when it may sleep."""

from __future__ import annotations

from collections.abc import Iterable

from lockfast.claims.claim import NEVER, Claim
from lockfast.claims.notices import Notices
from lockfast.claims.phases import HELD, WAITING
from lockfast.core.timetable import Pulse

BEATS = 3.0  # renewals in a ttl


class Schedule(Notices):
    """The appointments of all claims. A part of the table: see there for its mutex."""

    def __init__(self) -> None:
        """Begin without appointments."""
        super().__init__()
        self._pulse: Pulse[Claim] = Pulse()
        self._planned = NEVER
        """Until when the heart sleeps."""

    def hasten(self, claim: Claim, now: float) -> None:
        """Have a lease renewed at once."""
        with self._lock:
            self._appoint(claim, now)

    def postpone(self, claims: Iterable[Claim], now: float) -> None:
        """Put claims back whose renewal is due, and was not tried."""
        with self._lock:
            for claim in claims:
                if claim.phase in (HELD, WAITING):
                    self._pulse.appoint(claim, now)

    def _keep(self, claim: Claim, now: float) -> None:
        shape = claim.shape
        life = shape.ttl if claim.phase is HELD else shape.wait_ttl
        if claim.lane is not None:
            claim.lane.pop(claim, None)
        lane = claim.lane = self._pulse.lane(life / BEATS)
        due = lane[claim] = now + lane.interval
        if due < self._planned:
            self._hurry(due)

    def _appoint(self, claim: Claim, when: float) -> None:
        self._pulse.appoint(claim, when)
        self._hurry(when)

    def _hurry(self, when: float) -> None:
        """Rouse the heart if it sleeps for longer than that."""
        if when < self._planned:
            self._planned = -NEVER
            self.rouse()
