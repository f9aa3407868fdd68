"""One run with clients that batch: the workers of each share their calls of the engine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

from lockfast.engines import batching
from lockfast.engines.batching import Batching
from lockfast.engines.lane import Lane
from lockfast.engines.lane_call import Call
from lockfast.engines.lane_entry import Entry
from lockfast.errors import EngineUnavailable
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from tests.robustness.simulation.plan import LOCKS, draw
from tests.robustness.simulation.remote import Remote
from tests.robustness.simulation.run import Outcome, Simulation, broken
from tests.robustness.simulation.world import Process

WORKERS = 5
MORE = tuple("abcdef")
SIZE = 4
_go, _failed = Lane._go, Entry.failed


def run(seed: int, *, tracing: bool = False) -> Outcome:
    """Run a seed."""
    random.seed(seed)  # the jitter of the code under test
    rng = Random(seed)  # noqa: S311  # no secret
    plan = draw(rng)
    plan.workers = WORKERS
    if plan.names == LOCKS[:1]:
        plan.names = MORE  # requests for one name never share a call
    simulation = Together(rng, plan, tracing=tracing)
    with patch.object(batching, "AT_ONCE", 1):  # so that more requests wait for one another
        why = broken(simulation.run, simulation.clear)
    return Outcome(seed, why, simulation.witness.seen, simulation.world.trace)


class Together(Simulation):
    """A run in which clients batch."""

    def _opener(self, process: Process, prefix: str) -> Callable[[], Engine]:
        remote = Remote(process, self.server, prefix)
        return lambda: Batching(remote, Aio(process.time), SIZE)


async def answer_in_the_wrong_order(self: Lane[object], call: Call[object]) -> None:
    """Hand the first reply to the last caller."""
    send = self._send

    async def backwards(asks: Sequence[object], deadline: float) -> list[object]:
        return list(reversed(await send(asks, deadline)))  # type: ignore[arg-type]

    with patch.object(self, "_send", backwards):
        await _go(self, call)


def fail_without_doubt(self: Entry[object], error: Exception | None) -> None:
    """Say of a lost call that nothing was sent."""
    if isinstance(error, EngineUnavailable):
        error = EngineUnavailable(error.message, sent=False)
    _failed(self, error)


def keep_what_was_cancelled(self: Lane[object], entry: Entry[object]) -> bool:
    """Send the request all the same, with the next call."""
    return entry in self._pending


MUTANTS: dict[str, tuple[type, str, Callable[..., object]]] = {
    "a batch answered in the wrong order": (Lane, "_go", answer_in_the_wrong_order),
    "a lost batch not doubted": (Entry, "failed", fail_without_doubt),
    "a cancelled claim kept": (Lane, "_withdraw", keep_what_was_cancelled),
}
FOUND = {
    "a batch answered in the wrong order": 0,
    "a lost batch not doubted": 430,
    "a cancelled claim kept": 115,
}
"""From which seed on each is looked for: not long before the first that finds it."""


@contextmanager
def switched_in(name: str) -> Iterator[None]:
    """Build it that way for a while."""
    with patch.object(*MUTANTS[name]):
        yield
