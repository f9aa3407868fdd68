"""What the heart does next: a timetable for very many claims. It knows no clock.

Claims with (nearly) the same interval share a lane, and a lane is in the order of its due times
by itself, since each renewal goes to its end. So adding, removing and taking what is due cost the
same for one claim as for 100,000, and a claim that was released leaves nothing behind.

A signal handler or a finalizer may add and remove claims between any two bytecodes of a method
here: loops run over copies, and what is removed may be gone already.
"""

from __future__ import annotations

import heapq
import math
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K")
MEMORY = 256  # intervals whose lane is remembered
STEPS = 8  # lanes per doubling of the interval: renewing at most 1/8 earlier than asked


class Lane(dict[K, float], Generic[K]):
    """The claims of one interval, each with the time it is due, soonest first."""

    __slots__ = ("interval",)

    def __init__(self, interval: float) -> None:
        """Begin empty."""
        super().__init__()
        self.interval = interval


class Pulse(Generic[K]):
    """The timetable: lanes for the regular beat, an agenda for single appointments."""

    def __init__(self) -> None:
        """Begin with nothing due, ever."""
        self._lanes: dict[float, Lane[K]] = {}
        self._known: dict[float, Lane[K]] = {}
        self._agenda: list[tuple[float, int, K]] = []
        self._ties = count()

    def lane(self, interval: float) -> Lane[K]:
        """Find the lane for claims renewed every `interval` seconds, or slightly oftener.

        Intervals are rounded down to eight steps per doubling, so that a program with a thousand
        different ttls has a few dozen lanes to look at, not a thousand.
        """
        known = self._known.get(interval)
        if known is not None:
            return known
        mantissa, exponent = math.frexp(interval)
        step = math.ldexp(math.floor(mantissa * 2 * STEPS) / (2 * STEPS), exponent)
        lane = self._lanes.get(step)
        if lane is None:
            lane = self._lanes[step] = Lane(step)
        if len(self._known) < MEMORY:
            self._known[interval] = lane
        return lane

    def appoint(self, key: K, when: float) -> None:
        """Look at `key` once at `when`, besides its regular beat."""
        heapq.heappush(self._agenda, (when, next(self._ties), key))

    def next(self) -> float | None:
        """Tell when something is due; None if nothing is."""
        soonest = min([_first(lane) for lane in list(self._lanes.values())], default=math.inf)
        if self._agenda:
            soonest = min(soonest, self._agenda[0][0])
        return None if soonest == math.inf else soonest

    def shortest(self) -> float:
        """Tell the shortest interval at which anything is renewed."""
        lanes = list(self._lanes.values())
        return min([lane.interval for lane in lanes if lane], default=math.inf)

    def take(self, now: float) -> list[list[K]]:
        """Take out what is due: one batch per lane, and one of the appointments.

        Claims of a lane have like ttls, so one deadline fits a batch. Each claim comes once, though
        it may have several appointments. Redlock judges each copy in a request by itself: it could
        withdraw a claim because nodes refused the first copy, and grant it for the second copy.
        """
        batches = []
        for lane in list(self._lanes.values()):
            batch = _due(lane, now)
            for key in batch:
                lane.pop(key, None)
            batches.append(batch)
        if self._agenda and self._agenda[0][0] <= now:
            taken = {key for batch in batches for key in batch}
            appointed: dict[K, None] = {}
            while self._agenda and self._agenda[0][0] <= now:
                key = heapq.heappop(self._agenda)[2]
                if key not in taken:
                    appointed[key] = None
            batches.append(list(appointed))
        return [batch for batch in batches if batch]


def _first(lane: Lane[K]) -> float:
    """Tell when the first of a lane is due."""
    while True:
        try:
            return next(iter(lane.values()), math.inf)
        except RuntimeError:  # it was changed between the two calls
            continue


def _due(lane: Lane[K], now: float) -> list[K]:
    """List what is due in a lane. Not from a copy: it may have 100,000 others."""
    while True:
        batch = []
        try:
            for key, due in lane.items():
                if due > now:
                    break
                batch.append(key)
        except RuntimeError:  # it was changed meanwhile; nothing was taken out yet
            continue
        return batch
