"""One run on Redlock: its engine, its asyncio transport, its programs in Lua, all as they are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

from lockfast.engines.redis.keys import BUCKETS
from lockfast.engines.redis.transport import Address
from lockfast.engines.redlock import claiming
from lockfast.engines.redlock.aio import AioTransport
from lockfast.engines.redlock.engine import RedlockEngine
from lockfast.engines.redlock.messages import MEMBER, mark_key
from lockfast.engines.redlock.transport import Introduction
from lockfast.errors import LockfastError
from lockfast.port import Engine
from tests.robustness.simulation.network import Network
from tests.robustness.simulation.node import EPOCH, Node
from tests.robustness.simulation.party import Party
from tests.robustness.simulation.plan import FAULTY, LOCKS, draw
from tests.robustness.simulation.register import Place
from tests.robustness.simulation.run import Outcome, broken
from tests.robustness.simulation.tcp import Cable
from tests.robustness.simulation.votes import Votes
from tests.robustness.simulation.world import Broken, Process, World

NODES = 5
PATIENCE = 40.0  # seconds after the faults in which every waiter is granted or told
SKEW = 0.5  # seconds by which a client's wall clock may be wrong


def run(seed: int, *, tracing: bool = False) -> Outcome:
    """Run a seed."""
    random.seed(seed)  # the jitter of the code under test
    election = Ballot(Random(seed), tracing=tracing)  # noqa: S311  # no secret
    with patch.object(claiming, "time", SimpleNamespace(time_ns=election.wall)):
        why = broken(election.run, election.clear)
    return Outcome(seed, why, election.votes.seen, election.world.trace)


class Ballot:
    """Everything of one run."""

    def __init__(self, rng: Random, *, tracing: bool) -> None:
        self.plan = draw(rng)
        self.plan.names = LOCKS[: rng.choice((1, 1, 2))]
        for _ in range(rng.choice((0, 0, 8))):  # so often that it hits those who just hold
            self.plan.events.append((rng.uniform(0.0, FAULTY), "wipe", rng.uniform(0.02, 0.3)))
        self.rng = rng
        self.world = World(tracing=tracing)
        self.nodes = [Node(self.world, number) for number in range(NODES)]
        for node in self.nodes:
            install(node)
        self.cable = Cable(self.nodes, self.plan, rng)
        self.network = Network(self.world, self.plan, rng)
        self.votes = Votes(self.world)
        self._weak = rng.sample(self.nodes, 2)
        """Those whose clocks may be wrong: never a majority."""
        self._ahead = rng.random() < 0.3
        place = Place(Process.new(self.world, "resource"), self.votes, self.plan.names)
        self.place = place
        for number in range(self.plan.clients):
            party = Party(
                *(number, self._opener, self.votes.seen, place),
                *(self.network, self.plan, self.world, rng),
            )
            party.process.dial = self.cable.connect
            self.votes.parties.append(party)
        self._skews = {p.process: rng.uniform(-SKEW, SKEW) for p in self.votes.parties}

    def wall(self) -> int:
        """Tell the time of the running client's wall clock, in nanoseconds."""
        process = asyncio.get_running_loop()
        assert isinstance(process, Process)
        return int((EPOCH + self.world.now + self._skews[process]) * 1e9)

    def _opener(self, process: Process, prefix: str) -> Callable[[], Engine]:
        del prefix
        nodes = [Address(f"node{number}", 6379) for number in range(NODES)]

        def open_engine() -> Engine:
            transport = AioTransport(nodes, Introduction(), process.time)
            return RedlockEngine(transport, process.time, asyncio.sleep, 0)

        return open_engine

    def run(self) -> None:
        """Begin, break things, stop breaking them, and look at what is left."""
        world, parties = self.world, self.votes.parties
        if world.tracing:
            world.say("plan", str(self.plan))
        fate = Process.new(world, "fate")
        for at, what, much in self.plan.events:
            fate.call_later(at, self._strike, what, much)
        fate.call_later(FAULTY, self._calm)
        for party in parties:
            party.done = self._done
            party.process.after = partial(self.votes.look, party)
            party.begin()
        if not world.run(FAULTY + PATIENCE):
            waiting = [p.process.name for p in parties if p.working and not p.crashed]
            raise Broken(f"still waiting {PATIENCE} s after the faults: {waiting}")
        self._wait(max(world.now, FAULTY) + 8.0)
        alive = [party for party in parties if not party.crashed]
        for party in alive:
            if len(party.session.table):
                raise Broken(f"{party.process.name} still has {party.claims()}")
            party.process.create_task(party.client.close())
        self._wait(world.now + 3.0)
        for party in parties:
            for task in party.process.tasks:
                error = task.exception() if task.done() and not task.cancelled() else None
                if error is not None and not isinstance(error, (LockfastError, OSError)):
                    raise Broken(f"{party.process.name}: {error!r}") from error
        self.votes.seen["lost by the twin"] = self.place.lost()

    def _done(self) -> None:
        self.world.halted = not any(party.working for party in self.votes.parties)

    def _wait(self, until: float) -> None:
        while self.world.now < until:
            self.world.run(until)

    def _calm(self) -> None:
        self.network.faulty = self.cable.faulty = False

    def _strike(self, what: str, much: float) -> None:
        rng, world = self.rng, self.world
        self.votes.seen[what] += 1
        if what in {"freeze", "crash"}:
            party = rng.choice(self.votes.parties)
            if what == "crash":
                party.crash()
            else:
                party.process.frozen = max(party.process.frozen, world.now + much)
        elif what == "pause":
            node = rng.choice(self.nodes)
            node.process.frozen = max(node.process.frozen, world.now + much)
        elif what == "back":
            ahead = self._ahead and rng.random() < 0.5
            self.votes.jumped = self.votes.jumped or ahead
            rng.choice(self._weak).shift += (1.0 if ahead else -1.0) * much * 4
        elif what != "replicate":
            members = [node for node in self.nodes if node.up and is_member(node)]
            if len(members) < NODES - 1:  # more than a minority would need an operator
                return
            node = rng.choice(members)
            node.stop()
            if what in {"wipe", "failover"}:
                node.wipe()
            node.process.call_later(min(much, FAULTY - world.now), node.start)

    def clear(self) -> None:
        """End every task, so that nothing of this run is left for the garbage collector."""
        world, parties = self.world, self.votes.parties
        self.network.ended = self.cable.ended = True
        world.agenda.clear()
        for party in parties:
            party.process.after = None
        for _ in range(10):
            pending = [t for p in parties for t in p.process.tasks if not t.done()]
            if not pending:
                break
            for party in parties:
                party.process.frozen = 0.0
            for task in pending:
                task.cancel()
            world.run(world.now + 10.0)
        for party in parties:
            for task in party.process.tasks:
                if task.done() and not task.cancelled():
                    task.exception()


def is_member(node: Node) -> bool:
    """Tell whether it takes part, as the process that it is."""
    return node._data.get(MEMBER.encode()) == (b"M " + node.run_id, None)


def install(node: Node) -> None:
    """Make a node a member of a new set, as install.lua does, in no time."""
    node._data[MEMBER.encode()] = (b"M " + node.run_id, None)
    for bucket in range(BUCKETS):
        node._data[mark_key(bucket).encode()] = (b"%016d 0" % 1, None)
