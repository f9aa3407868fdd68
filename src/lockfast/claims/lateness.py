"""The part of the table for the stand-in: whether the heart is late, and what must be renewed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lockfast.claims.claim import NEVER, Claim
from lockfast.claims.departures import Departures
from lockfast.claims.phases import HELD
from lockfast.claims.schedule import BEATS


class Lateness(Departures):
    """The heart's punctuality. A base class of the table."""

    def __init__(self) -> None:
        """Begin with a heart that is in time, and without a stand-in."""
        super().__init__()
        self.alert: Callable[[], object] = bool
        """Makes the stand-in look again."""
        self._watched = -NEVER
        """The interval that the stand-in reckons with. A claim with a shorter one alerts it. It is
        -NEVER if there is no stand-in, or if it will look again anyway."""
        self._taken: Sequence[Sequence[Claim]] = ()
        """What the heart has taken out of the schedule in this beat, in order to renew it."""
        self._worked = 0.0
        """When the heart's present beat began."""

    def watch(self) -> tuple[float, float] | None:
        """Return when the heart had or has to work next, and its shortest interval.

        Return None if there are no claims. A claim that is registered later alerts the stand-in, if
        its interval is shorter than all others.
        """
        with self._lock:
            self._watched = NEVER  # first: an interruption that registers a claim must alert
            taken = [claim for batch in self._taken for claim in batch]
            intervals = [claim.life / BEATS for claim in taken]
            shortest = min([self._pulse.shortest(), *intervals])
            if shortest == NEVER:
                return None
            self._watched = shortest
            due = self._pulse.next()
            # The loop may have been blocked after the heart has sent a renewal. Then nothing of
            # what it has taken is in the schedule.
            times = [NEVER if due is None else due, self._worked if taken else NEVER]
            return min(times), shortest

    def stranded(self, now: float) -> list[Claim]:
        """Return the held claims whose renewal is due, and which are not to be left to expire."""
        with self._lock:
            return [
                claim
                for claim in list(self._by_id.values())
                if claim.phase is HELD and claim.due(now, BEATS) and claim.lease() is not None
            ]

    def _alert(self) -> None:
        self._watched = -NEVER
        self.alert()
