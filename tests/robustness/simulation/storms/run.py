"""One run of a storm: a seed, the fleet and the storms drawn from it, and what came of it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

from lockfast.claims.heart import log
from lockfast.engines.remote import identity, opener
from lockfast.runtime.aio import Aio
from lockfast.service import overload
from lockfast.url import parse
from tests.robustness.simulation.run import Ear, Outcome
from tests.robustness.simulation.storms.access import Access
from tests.robustness.simulation.storms.database import Database, Queues
from tests.robustness.simulation.storms.fleet import Client
from tests.robustness.simulation.storms.machine import Machine, Time
from tests.robustness.simulation.storms.mutants import switched_in
from tests.robustness.simulation.storms.network import Network
from tests.robustness.simulation.storms.place import Place
from tests.robustness.simulation.storms.plan import RACKS, TTL, Fault, Plan, draw
from tests.robustness.simulation.storms.rules import Rules
from tests.robustness.simulation.world import Broken

LOOK = 1.0  # seconds between two looks at what waits at the replicas
SELDOM = 6  # seconds between two looks at what is in the database


def run(seed: int, *, clients: int, mutant: str | None = None, tracing: bool = False) -> Outcome:
    """Run a seed. The same seed gives the same run, to the last message."""
    random.seed(seed)  # the jitter of the code under test
    rng = Random(seed)  # noqa: S311  # no secret
    storm = Storm(rng, draw(rng, clients), tracing=tracing)
    ear, level = Ear(), log.level
    log.addFilter(ear)
    log.setLevel("ERROR")
    why = None
    try:
        secret = patch.object(identity, "new_secret", lambda: f"{rng.getrandbits(256):064x}")
        slow = scaled(storm.plan.stands)
        with secret, switched_in(mutant), slow:
            storm.run()
    except Broken as error:
        why = str(error)
    finally:
        log.setLevel(level)
        log.removeFilter(ear)
    if ear.stumbles:  # first: what was broken after it is no wonder
        why = f"an error was logged: {ear.stumbles[0]}"
    if why is not None:
        why = f"{'+'.join(storm.plan.storms)}: {why}"
    return Outcome(seed, why, storm.rules.seen, storm.time.trace)


@contextmanager
def scaled(stands: int) -> Iterator[None]:
    """Make the replicas expect processors that are so many times slower than real ones."""
    with (
        patch.object(overload, "RATE", overload.RATE / stands),
        patch.object(overload, "WAITING", overload.WAITING // stands),
    ):
        yield


class Storm:
    """Everything of one run."""

    def __init__(self, rng: Random, plan: Plan, *, tracing: bool) -> None:
        self.plan = plan
        self.time = Time(tracing=tracing)
        self.rules = Rules(self.time)
        self._rng = rng
        self._network = Network(self.time, rng)
        self._database = Database(self.time, plan.stands)
        self._database.queues.granted = self.rules.granted
        make = partial(Access, database=self._database, rng=rng)
        self.places = [
            Place(self.time, number, make, self._network, plan.stands)
            for number in range(plan.replicas)
        ]
        self._rolling_on = 0
        """How many times all replicas are being restarted now."""
        self._tasks: list[asyncio.Task[Any]] = []
        self._fleets = [self._fleet(rack) for rack in range(RACKS)]

    def _fleet(self, rack: int) -> Machine:
        """Return the machine of the clients of a rack, which has processors for all of them."""
        fleet = Machine.new(self.time, f"rack {rack}")
        fleet.dial = partial(self._dial, rack)
        fleet.call_soon(self._begin, fleet, rack)
        return fleet

    def _begin(self, fleet: Machine, rack: int) -> None:
        runtime = Aio(fleet.time)
        hosts = ",".join(place.name for place in self.places)
        open_engine = opener(parse(f"lockfast://{hosts}"), runtime)
        for number in range(rack, self.plan.clients, RACKS):
            client = Client(number, rack, open_engine, runtime, self.rules, self.plan, self._rng)
            task = fleet.create_task(client.live(), name="worker")
            task.add_done_callback(_ended)
            self._tasks.append(task)

    async def _dial(
        self, rack: int, fleet: Machine, make: Callable[[], asyncio.Protocol], host: str
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        place = self.places[int(host.removeprefix("replica"))]
        return await place.connect(fleet, rack, make)

    def run(self) -> None:
        """Let the storms come, and look at what is left."""
        self.rules.seen.update(self.plan.storms)
        for fault in self.plan.faults:
            self.time.at(fault.at, self._strike, fault)
        self.time.at(LOOK, self._look)
        self.time.say("plan", str(self.plan))
        self.time.run(self.plan.over)
        while self._rolling_on:
            self.time.run(self.time.now + LOOK)
        self.time.run(self.time.now + TTL)
        self.rules.end()

    def _strike(self, fault: Fault) -> None:
        self.time.say("fate", str(fault))
        getattr(self, f"_{fault.what}")(fault)

    def _kill(self, fault: Fault) -> None:
        process = self.places[fault.where].process
        if process is not None and len(self.plan.storms) == 1:
            count = len(process.replica.connections)
            even = count / max(process.replica.load.spread(), 1.0)
            now = self.time.now
            self.time.at(now + TTL, self.rules.connected, int(now), self._arrived, even)
        self._down(self.places[fault.where], fault.seconds)

    def _arrived(self) -> Counter[int]:
        """Return how many clients connected in each second to those that live."""
        processes = [each.process for each in self.places if each.process is not None]
        return sum((process.welcomed for process in processes), Counter())

    def _vanish(self, fault: Fault) -> None:
        self._down(self.places[fault.where], fault.seconds, silent=True)

    def _down(self, place: Place, seconds: float, *, silent: bool = False) -> None:
        place.kill(silent=silent)
        self.time.at(self.time.now + seconds, place.start)
        if not any(each.process for each in self.places):
            for rack in range(RACKS):
                self.rules.outage(rack, seconds)

    def _rolling(self, fault: Fault) -> None:
        self._rolling_on += 1
        self._roll(fault, 0)

    def _roll(self, fault: Fault, turn: int) -> None:
        """Restart one replica, and some time after it is back the next one."""
        if turn == len(self.places):
            self._rolling_on -= 1
            return
        self.places[turn].drain(
            lambda: self.time.at(self.time.now + fault.seconds, self._roll, fault, turn + 1)
        )

    def _restart(self, fault: Fault) -> None:
        self._database.stop(self._database.queues)
        self._away(fault.seconds)

    def _failover(self, fault: Fault) -> None:
        copy = self._database.queues.copy()
        self.time.at(self.time.now + fault.lag, self._take_over, copy, fault)

    def _take_over(self, copy: Queues, fault: Fault) -> None:
        self.rules.forgets(self._database.queues, copy)
        self._database.stop(copy)
        self._away(fault.seconds)

    def _away(self, seconds: float) -> None:
        self.time.at(self.time.now + seconds, self._database.start)
        for rack in range(RACKS):
            self.rules.outage(rack, seconds)

    def _pause(self, fault: Fault) -> None:
        self._database.pause(fault.seconds)
        for rack in range(RACKS):
            self.rules.outage(rack, fault.seconds)

    def _cut(self, fault: Fault) -> None:
        for rack in range(RACKS):
            if fault.where in {rack, RACKS}:
                self._network.cut(rack, self.time.now + fault.seconds)
                self.rules.outage(rack, fault.seconds)

    def _look(self) -> None:
        """Look at what waits at the replicas."""
        for place in self.places:
            if place.process is not None:
                self.rules.waits(place.process)
        if not int(self.time.now) % SELDOM:
            self.rules.orphans(self._database.queues)
        self.time.at(self.time.now + LOOK, self._look)


def _ended(task: asyncio.Task[None]) -> None:
    error = task.exception()
    if isinstance(error, Broken):
        raise error
    if error is not None:
        raise Broken(f"a client has ended: {error!r}") from error
