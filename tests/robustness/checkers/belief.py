"""Belief: from when until when each client thought that it held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tests.robustness.checkers.violation import Violation, Windows, faults
from tests.robustness.history import Kind, Outcome, Record

BREAKING = ("pause", "clock", "data")
LATE = "late"
"""Its time was over, and it had not been told: a busy machine, or a body that does not ask."""


class Belief(NamedTuple):
    """One client's belief in one grant."""

    name: str
    client: str
    id: str
    token: int
    weight: int
    capacity: int
    asked: float
    began: float
    """When it was told of the grant."""
    until: float
    """Until when it was right to believe, by its own clock: what the lease says if asked. That may
    be before it was told, if it was paused in between."""
    ended: float
    """When it let go or was told of the loss. One that was paused, or never asks, goes on."""
    how: Kind | None
    """RELEASE, LOST, or None where nothing more was heard of it."""
    freed: float
    """When the engine had confirmed the release; 0 if it never did."""

    @property
    def exclusive(self) -> bool:
        return self.weight == self.capacity


class Overlap(NamedTuple):
    """Two who thought at once that they held alone."""

    name: str
    first: Belief
    second: Belief
    began: float
    ended: float
    allowed: list[str]
    """The faults in force that allow it, and LATE if the first had no right any more."""

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def since(self) -> float:
        return _since(self.first, self.second)

    @property
    def rightful(self) -> bool:
        """Whether both had a right to believe, each by its own clock."""
        return self.began < self.first.until and self.began < self.second.until


def beliefs(history: Iterable[Record]) -> dict[str, list[Belief]]:
    """Give the beliefs in each name, in the order in which they began."""
    open_: dict[tuple[str, str], Record] = {}
    found: dict[str, list[Belief]] = defaultdict(list)

    def close(grant: Record, until: float, ended: float, end: Record | None) -> None:
        belief = Belief(
            grant.name,
            grant.client,
            grant.id,
            grant.token,
            grant.weight,
            grant.capacity,
            grant.began,
            grant.ended,
            min(until, ended),
            max(ended, grant.ended),
            None if end is None else end.kind,
            end.ended if end and end.kind is Kind.RELEASE and end.outcome is Outcome.OK else 0.0,
        )
        found[grant.name].append(belief)

    for record in sorted(history, key=lambda each: each.ended):
        key = record.name, record.id
        if record.kind is Kind.ACQUIRE and record.outcome is Outcome.OK:
            open_[key] = record
        elif record.kind in (Kind.RELEASE, Kind.LOST) and key in open_:
            grant = open_.pop(key)
            # The record of the end knows the validity that renewals had brought by then.
            until = max(record.until, grant.until)
            ended = record.began if record.kind is Kind.RELEASE else record.ended
            close(grant, until or ended, ended, record)
    for grant in open_.values():
        # Killed, or still at work: what renewals brought is not known.
        close(grant, grant.until, grant.until, None)
    for held in found.values():
        held.sort(key=lambda belief: belief.began)
    return found


def overlaps(history: Iterable[Record]) -> list[Overlap]:
    """Give every two exclusive holders who were at work at once. They are counted; where nothing
    was paused, moved or lost, `within_lease` finds what is wrong.
    """
    history = list(history)
    broken = Windows(faults(history), BREAKING)
    told = []
    for name, held in beliefs(history).items():
        latest: Belief | None = None
        for belief in held:
            if not belief.exclusive:
                continue
            if latest is not None and belief.began < latest.ended:
                ended = min(latest.ended, belief.ended)
                allowed = broken.kinds(_since(latest, belief), ended)
                overlap = Overlap(name, latest, belief, belief.began, ended, allowed)
                if not overlap.rightful:
                    allowed.append(LATE)
                told.append(overlap)
            if latest is None or belief.ended > latest.ended:
                latest = belief
    return [overlap for overlap in told if overlap.seconds > 0]


def _since(first: Belief, second: Belief) -> float:
    """Tell from when a fault may explain that both were granted: that forgot the one with the lower
    token, which is the first to be told unless its answers came late.
    """
    return first.asked if first.token < second.token else min(first.asked, second.asked)


def within_lease(history: Iterable[Record]) -> list[Violation]:
    """Whoever has the right to believe, by its own clock, has a lease in the engine: nobody else
    has that right before it ends. Pauses are no excuse: the clock goes on.
    """
    wrong = []
    for name, held in beliefs(history).items():
        latest: Belief | None = None
        for belief in held:
            if not belief.exclusive or belief.until <= belief.began:
                continue
            if latest is not None and belief.began < latest.until:
                said = (
                    f"{name}: {latest.client} (token {latest.token}) had a right to believe for "
                    f"{latest.until - belief.began:.3f} s more when {belief.client} (token "
                    f"{belief.token}) was told"
                )
                wrong.append(Violation("within_lease", said, _since(latest, belief), latest.until))
            if latest is None or belief.until > latest.until:
                latest = belief
    return wrong


def kept(history: Iterable[Record]) -> list[Violation]:
    """No lease is taken away before the time is over for which it was said to be good."""
    grants = {
        (record.name, record.id): record
        for record in history
        if record.kind is Kind.ACQUIRE and record.outcome is Outcome.OK
    }
    wrong = []
    for record in history:
        if record.kind is Kind.LOST and (grant := grants.get((record.name, record.id))):
            until = max(record.until, grant.until)
            if until > record.ended:
                said = (
                    f"{record.name}: {record.client} (token {grant.token}) lost it "
                    f"{until - record.ended:.3f} s before its time was over"
                )
                wrong.append(Violation("kept", said, grant.began, record.ended))
    return wrong
