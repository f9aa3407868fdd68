"""One run: a seed, the faults drawn from it, and what came of it."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from unittest.mock import patch

from lockfast.claims import acquire, session
from lockfast.claims.heart import log
from lockfast.errors import LockfastError
from lockfast.port import Engine, shape
from tests.robustness.simulation.deeds import TTLS
from tests.robustness.simulation.network import Network
from tests.robustness.simulation.party import Party
from tests.robustness.simulation.plan import FAULTY, LATEST, LOCKS, Plan, draw
from tests.robustness.simulation.register import Place
from tests.robustness.simulation.remote import Remote
from tests.robustness.simulation.server import Server
from tests.robustness.simulation.witness import Witness
from tests.robustness.simulation.world import Broken, Process, World

DELTA = 6.0  # seconds, beyond a ttl, in which every waiter is granted or told
CROWDED = 20.0  # the same, where bodies take a second lock, meet in circles, and give way
WAIT, IO, LOOK = 3.0, 0.6, 2.0  # the client's own times, shorter than they are: so more happens
SETTLING = 2.0  # seconds in which what was given up is resigned


@dataclass
class Outcome:
    """What came of a run."""

    seed: int
    broken: str | None
    seen: Counter[str]
    trace: list[str]


class Ear(logging.Filter):
    """Hears a heart stumble, which it would survive; everything else is routine here."""

    def __init__(self) -> None:
        super().__init__()
        self.stumbles: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1] is not None:
            self.stumbles.append(f"{record.getMessage()}: {record.exc_info[1]!r}")
        return False


@contextmanager
def quiet() -> Iterator[list[str]]:
    """Make the client's times short and its log silent; give what hearts stumbled over."""
    ear, level = Ear(), log.level
    log.addFilter(ear)
    log.setLevel(logging.ERROR)
    try:
        with (
            patch.object(shape, "LONGEST_WAIT", WAIT),
            patch.object(session, "IO", IO),
            patch.object(acquire, "LONGEST_LOOK", LOOK),
        ):
            yield ear.stumbles
    finally:
        log.setLevel(level)
        log.removeFilter(ear)


def broken(play: Callable[[], None], clear: Callable[[], None]) -> str | None:
    """Play a run to its end, and clear up; tell what broke."""
    with quiet() as stumbles:
        try:
            play()
            if stumbles:
                raise Broken(f"a heart stumbled: {stumbles[0]}")
        except Broken as error:
            return str(error)
        finally:
            clear()
    return None


def run(seed: int, *, tracing: bool = False) -> Outcome:
    """Run a seed. The same seed gives the same run, to the last message."""
    random.seed(seed)  # the jitter of the code under test
    rng = Random(seed)  # noqa: S311  # no secret
    simulation = Simulation(rng, draw(rng), tracing=tracing)
    why = broken(simulation.run, simulation.clear)
    return Outcome(seed, why, simulation.witness.seen, simulation.world.trace)


class Simulation:
    """Everything of one run."""

    def __init__(self, rng: Random, plan: Plan, *, tracing: bool) -> None:
        self.plan = plan
        self.rng = rng
        self.world = World(tracing=tracing)
        self.network = Network(self.world, self.plan, rng)
        self.witness = Witness(self.world)
        self.server = self.witness.server = Server(
            self.world, self.network, self.witness, self.plan
        )
        self.place = Place(Process.new(self.world, "resource"), self.witness, self.plan.names)
        for number in range(self.plan.clients):
            self.witness.parties.append(
                Party(
                    *(number, self._opener, self.witness.seen, self.place),
                    *(self.network, self.plan, self.world, rng),
                )
            )
        self.parties = self.witness.parties

    def _opener(self, process: Process, prefix: str) -> Callable[[], Engine]:
        remote = Remote(process, self.server, prefix)
        return lambda: remote

    def run(self) -> None:
        """Begin, break things, stop breaking them, and look at what is left."""
        world = self.world
        if world.tracing:
            world.say("plan", str(self.plan))
        fate = Process.new(world, "fate")
        for at, what, much in self.plan.events:
            fate.call_later(at, self._strike, what, much)
        fate.call_later(FAULTY, self._calm)
        for party in self.parties:
            party.done = self._done
            party.process.after = partial(self.witness.beliefs, party, changed=False)
            party.begin()
        patience = max(TTLS) + (CROWDED if self.plan.names == LOCKS else DELTA)
        if not world.run(FAULTY + patience):
            waiting = [f"{p.process.name} {p.claims()}" for p in self._alive() if p.working]
            raise Broken(f"still waiting {patience} s after the faults: {waiting}")
        self.witness.seen["seconds after faults"] = max(0, round((world.now - FAULTY) * 1000))
        self._wait(max(world.now, FAULTY + LATEST) + SETTLING)
        self._tidy()
        for party in self._alive():
            party.process.create_task(party.client.close())
        self._wait(world.now + max(TTLS))
        now = self.server.clock()
        left = [e for name in self.plan.names for e in self.server.queues.entries(name, now)]
        if left:
            raise Broken(f"the engine still has {left}")
        for party in self.parties:
            for task in party.process.tasks:
                error = task.exception() if task.done() and not task.cancelled() else None
                if error is not None and not isinstance(error, LockfastError):
                    raise Broken(f"{party.process.name}: {error!r}") from error
        self.witness.seen["lost by the twin"] = self.place.lost()

    def _done(self) -> None:
        self.world.halted = not any(party.working for party in self.parties)

    def _wait(self, until: float) -> None:
        while self.world.now < until:  # a crash halts the world too
            self.world.run(until)

    def _alive(self) -> list[Party]:
        return [party for party in self.parties if not party.crashed]

    def _tidy(self) -> None:
        """Check that nothing is left of what ended."""
        for party in self._alive():
            if len(party.session.table):
                raise Broken(f"{party.process.name} still has {party.claims()}")
        now = self.server.clock()
        gone = {party.prefix for party in self.parties if party.crashed}
        for name in self.plan.names:
            for entry in self.server.queues.entries(name, now):
                # An engine that lost its tombstones may have an orphan, for a ttl.
                if entry.id[:22] not in gone and not self.witness.amnesia:
                    raise Broken(f"an orphan is left in the engine: {entry}")

    def _strike(self, what: str, much: float) -> None:
        world = self.world
        if world.tracing:
            world.say("fate", f"{what} {much:.3f}")
        self.witness.seen[what] += 1
        if what in {"freeze", "crash"}:
            party = self.rng.choice(self.parties)
            if world.tracing:
                world.say(party.process.name, f"suffers a {what}")
            if what == "crash":
                party.crash()
            else:
                party.process.frozen = max(party.process.frozen, world.now + much)
        elif what == "replicate":
            self.server.replicate()
        else:
            getattr(self.server, what)(much)

    def _calm(self) -> None:
        self.network.faulty = False
        if self.world.tracing:
            self.world.say("fate", "no more faults")

    def clear(self) -> None:
        """End every task, so that nothing of this run is left for the garbage collector."""
        world = self.world
        for party in self.parties:
            party.process.after = None
        self.network.ended = True
        world.agenda.clear()
        for _ in range(10):
            pending = [t for p in self.parties for t in p.process.tasks if not t.done()]
            if not pending:
                break
            for party in self.parties:
                party.process.frozen = 0.0
            for task in pending:
                task.cancel()
            world.run(world.now + 10.0)
        for party in self.parties:
            for task in party.process.tasks:
                if task.done() and not task.cancelled():
                    task.exception()
