"""The phases of a claim: the table of claims makes the transitions that are written down, each of
them, and no other.
"""

from __future__ import annotations

import random
import weakref
from functools import cache
from itertools import product

import pytest

from lockfast.claims.claim import Claim
from lockfast.claims.phases import ENDED, HELD, TRANSITIONS, WAITING, Phase
from lockfast.claims.table import Table
from lockfast.errors import EngineUnavailable, Loss
from lockfast.port import EVERYONE, Ask, Shape, Standing, Wake

WALKS, STEPS = 3000, 12
TTL = 30.0
Pair = tuple[Phase, Phase]


class Lease:
    """Something to hold."""


class Watched(Claim):
    """A claim that writes down its transitions."""

    __slots__ = ("_phase", "seen")

    def __init__(self, ask: Ask, lease: Lease, seen: set[Pair]) -> None:
        self.seen = seen
        super().__init__(ask, 1, weakref.ref(lease))

    @property
    def phase(self) -> Phase:
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        before = getattr(self, "_phase", phase)
        if phase is not before:
            self.seen.add((before, phase))
        self._phase = phase


class Walk:
    """Does to one claim, in any order, what callers, pushes, replies and the heart may do to it."""

    def __init__(self, number: int, seen: set[Pair]) -> None:
        self.chance = random.Random(number)  # noqa: S311  # to be walked again
        self.table, self.now = Table(), 0.0
        self.lease: Lease | None = Lease()
        ask = Ask("0" * 32, Shape("x", TTL), queue=True, not_after=10.0, payload=b"")
        self.claim = Watched(ask, self.lease, seen)
        self.claim.keep = self.chance.choice([0.0, 0.0, 20.0])
        self.claim.handed = self.chance.random() < 0.3
        self.table.register(self.claim, self.now)
        self.claim.copies = self.chance.choice([0, 1, 1])

    def run(self) -> None:
        often = [self.answered, self.wake, self.renewed, self.unanswered, self.lose, self.work]
        often += [self.restart]
        seldom = [self.leave, self.end, self.release, self.drop]
        for _ in range(STEPS):
            self.now += self.chance.choice([0.0, 0.1, 3.0, 12.0, 40.0])
            self.chance.choice([*often * 3, *seldom])()
        if self.chance.random() < 0.2:
            self.table.disown()

    def standing(self) -> Standing | None:
        """What an engine may answer."""
        recheck = self.chance.choice([None, 5.0])
        waits = Standing(7, granted=False, left=10.0, ahead=1, recheck=recheck)
        return self.chance.choice([Standing(7, granted=True, left=TTL), waits, None])

    def answered(self) -> None:
        if self.claim.copies:
            self.table.answered(self.claim, self.now, self.standing(), self.now)

    def wake(self) -> None:
        push = Wake(self.claim.id, granted=self.chance.random() < 0.5)
        self.table.wake([self.chance.choice([EVERYONE, push])], self.now)

    def renewed(self) -> None:
        if self.claim.phase in (WAITING, HELD):
            unknown = EngineUnavailable("no answer", sent=True)
            reply = self.chance.choice([self.standing(), unknown])
            self.table.renewed([self.claim], self.now, [reply], self.now)

    def unanswered(self) -> None:
        self.table.unanswered([self.claim], self.now, self.now)

    def lose(self) -> None:
        self.table.lose(self.claim, Loss.GONE)

    def work(self) -> None:
        work = self.table.work(self.now)
        if self.chance.random() < 0.5:
            self.table.resigned(work.resign)

    def restart(self) -> None:
        self.table.restart(self.now)

    def leave(self) -> None:
        self.table.leave(self.claim, self.now)

    def end(self) -> None:
        self.table.end(self.claim)

    def release(self) -> None:
        if self.table.releasing(self.claim, self.now) and self.now < self.claim.keep:
            self.table.linger(self.claim)

    def drop(self) -> None:
        self.lease = None


@cache
def transitions() -> set[Pair]:
    """The transitions of many walks."""
    seen: set[Pair] = set()
    for number in range(WALKS):
        Walk(number, seen).run()
    return seen


@pytest.mark.parametrize(
    ("before", "after"),
    [pair for pair in product(Phase, Phase) if pair[0] is not pair[1]],
    ids=lambda phase: phase.name.lower(),
)
def test_a_phase_is_followed_by_those_that_are_written_down(before: Phase, after: Phase) -> None:
    happens = (before, after) in transitions()
    assert happens == (after in TRANSITIONS[before])


def test_nothing_follows_the_end() -> None:
    assert not TRANSITIONS[ENDED]
