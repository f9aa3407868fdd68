"""A bench: what one hand of a worker works with, and how it takes and gives back, recorded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from lockfast.errors import EngineUnavailable, LockfastError, NotAcquired
from lockfast.port import Shape
from lockfast.primitives.lease import LeaseCore
from lockfast.testing.harness import verbs
from lockfast.testing.harness.mode import Mode
from lockfast.testing.harness.verbs import AnyClient, AnyElection, AnyLease, AnyLock, AnyMultiLock
from tests.robustness.history import Kind, Outcome
from tests.robustness.traffic.clock import now
from tests.robustness.traffic.recorder import Recorder
from tests.robustness.traffic.register import Register

AnyHold = AnyLease | verbs.AnyMultiLease


def leases_of(held: AnyHold) -> list[LeaseCore]:
    """Give the leases of one hold."""
    return [held] if isinstance(held, LeaseCore) else list(held.leases.values())


def outcome_of(error: LockfastError) -> Outcome:
    """Tell what an error says of the operation that raised it."""
    sent = isinstance(error, EngineUnavailable) and error.sent
    return Outcome.UNKNOWN if sent else Outcome.NO


@dataclass
class Bench:
    """One hand's things. The dice are its own, so that the choices follow from the seed."""

    client: AnyClient
    mode: Mode
    recorder: Recorder
    register: Register
    ttl: float
    dice: random.Random

    def patience(self) -> float:
        """How long to wait: mostly long enough to outlast a dead holder, at times hardly at all."""
        return self.dice.choices((3 * self.ttl + 2.0, 0.05, 0.0), (8, 1, 1))[0]

    def work(self, usual: float, long: float) -> float:
        """How long to hold: mostly short, at times longer than a ttl, so that it is renewed."""
        usual = self.dice.uniform(0.0, 2 * usual)
        return 1.5 * self.ttl if self.dice.random() < long else usual

    async def taken(
        self, thing: AnyLock | AnyMultiLock | AnyElection, shapes: Sequence[Shape]
    ) -> AnyHold | None:
        """Acquire, and record it; None if it was not granted."""
        began = now()
        shapes = list(shapes)
        held: AnyHold
        try:
            if isinstance(thing, AnyElection):
                held = await verbs.campaign(thing, self.recorder.client, self.patience())
            else:
                held = await verbs.acquire(thing, self.patience())
        except NotAcquired:
            self.recorder.refused(shapes, began, Outcome.NO, "busy")
            return None
        except LockfastError as error:
            self.recorder.refused(shapes, began, outcome_of(error), str(error))
            await self.mode.sleep(self.dice.uniform(0.02, 0.1))
            return None
        self.recorder.holding(Kind.ACQUIRE, leases_of(held), began)
        for lease in leases_of(held):
            lease.on_lost(partial(self._told, lease))
        return held

    async def given_back(self, held: AnyHold) -> None:
        """Release, and record its beginning too: a killed worker's release may be applied."""
        began = now()
        leases = leases_of(held)
        self.recorder.holding(Kind.RELEASE, leases, began, Outcome.UNKNOWN)
        try:
            await verbs.release(held)
            outcome = Outcome.OK
        except LockfastError as error:
            outcome = outcome_of(error)
        self.recorder.holding(Kind.RELEASE, leases, began, outcome)

    def _told(self, lease: LeaseCore) -> None:
        self.recorder.holding(Kind.LOST, [lease], now())
