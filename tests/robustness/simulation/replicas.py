"""One run with two replicas of the service between the clients and the server."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from lockfast.port import Engine
from tests.robustness.simulation.plan import FAULTY, Plan, draw
from tests.robustness.simulation.remote import Remote, copied
from tests.robustness.simulation.replica import Line, Replica, Way
from tests.robustness.simulation.run import Outcome, Simulation, broken
from tests.robustness.simulation.server import Answer, Request, Result
from tests.robustness.simulation.world import Broken, Process

REPLICAS = 2
FAULTS = ("kill", "drain", "halt", "cut", "sever")
LONGEST = 2.0  # seconds of a fault of a replica
CALM = 0.3  # of the runs: nothing fails but one replica at a time, and nobody leaves the other


def run(seed: int, *, tracing: bool = False) -> Outcome:
    """Run a seed."""
    random.seed(seed)  # the jitter of the code under test
    rng = Random(seed)  # noqa: S311  # no secret
    plan = draw(rng)
    calm = rng.random() < CALM
    if calm:
        plan.loss = plan.late = plan.double = 0.0
        plan.events = in_turn(rng)
    else:
        plan.events = sorted(plan.events + at_any_time(rng))
    simulation = Replicated(rng, plan, tracing=tracing)
    simulation.witness.calm = calm
    simulation.witness.seen["calm runs"] += calm
    why = broken(simulation.run, simulation.clear)
    return Outcome(seed, why, simulation.witness.seen, simulation.world.trace)


def in_turn(rng: Random) -> list[tuple[float, str, float]]:
    """Draw faults of replicas of which each is over some time before the next one begins."""
    events = []
    at = rng.uniform(0.5, 2.0)
    while at < FAULTY - LONGEST:
        events.append((at, rng.choice(FAULTS), rng.uniform(0.1, LONGEST / 2.0)))
        at += LONGEST + rng.uniform(0.5, 1.0)  # one that drains is away for twice as long
    return events


def at_any_time(rng: Random) -> list[tuple[float, str, float]]:
    """Draw faults of replicas; both may fail at once."""
    events = []
    for what in FAULTS:
        often = rng.choice((0.0, 0.0, 0.6))
        while rng.random() < often:
            at = rng.uniform(0.0, FAULTY)
            events.append((at, what, min(rng.uniform(0.1, LONGEST), (FAULTY - at) / 2.0)))
    return events


class Replicated(Simulation):
    """A run in which clients reach the server by replicas."""

    def __init__(self, rng: Random, plan: Plan, *, tracing: bool) -> None:
        super().__init__(rng, plan, tracing=tracing)
        self._replicas = [Replica(number, self.server) for number in range(REPLICAS)]

    def _opener(self, process: Process, prefix: str) -> Callable[[], Engine]:
        return lambda: Remote(process, Way(process, prefix, self._replicas, self.rng), prefix)

    def run(self) -> None:
        super().run()
        if self.witness.calm and (told := self.witness.seen["LeaseLost"]):
            raise Broken(f"{told} workers were told of a lost lease, for no reason")

    def _strike(self, what: str, much: float) -> None:
        if what not in FAULTS:
            super()._strike(what, much)
            return
        replica = self.rng.choice(self._replicas)
        if self.world.tracing:
            self.world.say(replica.process.name, f"suffers a {what} of {much:.3f} s")
        self.witness.seen[what] += 1
        getattr(replica, what)(much)


_request, _forward, _answered = Way.request, Replica.forward, Way.answered


def repeat_by_itself(self: Replica, line: Line, number: int, request: Request) -> None:
    """Send a claim once more, though its client does not know of another copy."""
    self.forward(line, number, request)


def send_how_long(
    self: Way,
    client: Process,
    request: Request,
    answer: Answer | None = None,
    cut: Callable[[], object] | None = None,
) -> None:
    """Say for how long a claim may be applied. The client knows the engine's time exactly."""
    _request(self, client, _moved(request, -self.replicas[0].server.clock()), answer, cut)


def count_from_its_arrival(self: Replica, line: Line, number: int, request: Request) -> None:
    """Say until when a claim may be applied. The replica knows the engine's time exactly."""
    _forward(self, line, number, _moved(request, self.server.clock()))


def _moved(request: Request, by: float) -> Request:
    if request.kind != "claim":
        return request
    return request._replace(asks=tuple(copied(ask, ask.not_after + by) for ask in request.asks))


def believe_any_answer(
    self: Way,
    epoch: int,  # noqa: ARG001  # which it ignores
    number: int,
    result: Result | None,
    told: float,
) -> None:
    _answered(self, self._epoch, number, result, told)


def forget_without_doubt(
    self: Way,  # noqa: ARG001  # patched in as a method
    answer: Answer | None,
    cut: Callable[[], object] | None,  # noqa: ARG001  # which it does not call
) -> None:
    """Say of what was not answered that nothing was sent."""
    if answer is not None:
        answer(None, 0.0)


def stay(self: Way) -> int:
    """Wait for the replica to come back."""
    return self._at


MUTANTS: dict[str, Sequence[tuple[type, str, Callable[..., Any]]]] = {
    "a replica that repeats a claim": ((Replica, "lost", repeat_by_itself),),
    "not_after as a duration": (
        (Way, "request", send_how_long),
        (Replica, "forward", count_from_its_arrival),
    ),
    "an answer of an earlier connection": ((Way, "answered", believe_any_answer),),
    "a move without doubt": ((Way, "forget", forget_without_doubt),),
    "a dead replica waited for": ((Way, "next", stay),),
}
FOUND = {
    "a replica that repeats a claim": 0,
    "not_after as a duration": 0,
    "an answer of an earlier connection": 0,
    "a move without doubt": 0,
    "a dead replica waited for": 0,
}
"""From which seed on each is looked for: not long before the first that finds it."""


@contextmanager
def switched_in(name: str) -> Iterator[None]:
    """Build it that way for a while."""
    with ExitStack() as patches:
        for each in MUTANTS[name]:
            patches.enter_context(patch.object(*each))
        yield
