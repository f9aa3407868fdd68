"""The schedule of a client: when the heart renews which claim, and until when it may sleep."""

from __future__ import annotations

from collections.abc import Iterable

from lockfast.claims.claim import NEVER, Claim
from lockfast.claims.notices import Notices
from lockfast.claims.phases import HELD, WAITING
from lockfast.core.timetable import Pulse

BEATS = 3.0  # renewals per ttl
FEWER_BEATS = 2.25
"""Renewals per ttl while the service is overloaded. Not 2: a lease is in jeopardy after half of its
ttl, and after one lost renewal there must be time for another one."""


class Schedule(Notices):
    """The renewal times of all claims. A base class of the table, whose mutex it uses."""

    def __init__(self) -> None:
        """Begin with an empty schedule."""
        super().__init__()
        self._pulse: Pulse[Claim] = Pulse()
        self.beats = BEATS
        """Renewals per ttl, as the latest reply to one wants it."""
        self._planned = NEVER
        """Until when the heart sleeps. -NEVER if it is awake, or was roused."""
        self._missed = -NEVER
        """When a wake came last that does not say who was granted. The push of a grant may have
        been lost before. So a claim that was sent before, and whose reply says that it waits, is
        asked about again."""

    def hasten(self, claim: Claim, now: float) -> None:
        """Make the heart renew a lease at once."""
        with self._lock:
            self._appoint(claim, now)

    def postpone(self, claims: Iterable[Claim], now: float) -> None:
        """Put claims back whose renewal is due but was not attempted."""
        with self._lock:
            for claim in claims:
                if claim.phase in (HELD, WAITING):
                    self._pulse.appoint(claim, now)

    def _keep(self, claim: Claim, now: float) -> None:
        life = claim.life
        if claim.phase is HELD:
            life = min(claim.shape.ttl, claim.ask.departs or NEVER)
        if claim.lane is not None:
            claim.lane.pop(claim, None)
        lane = claim.lane = self._pulse.lane(life / self.beats)
        due = lane[claim] = now + lane.interval
        if due < self._planned:
            self._hurry(due)

    def _appoint(self, claim: Claim, when: float) -> None:
        self._pulse.appoint(claim, when)
        self._hurry(when)

    def _hurry(self, when: float) -> None:
        """Rouse the heart if it would sleep beyond `when`."""
        if when < self._planned:
            self._planned = -NEVER
            self.rouse()
