"""A replica of the service, and a client's way to the server by one of them. Neither decides.

A replica forwards what a client asks, and what the server answers and pushes. It has no state but
its connections. A client that leaves a connection goes to the next replica, with the same ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

from lockfast.port import Wake, everyone_of
from tests.robustness.simulation.server import Answer, Push, Request, Result, Server
from tests.robustness.simulation.world import Process

SILENCE = 0.15  # seconds without an answer after which a client leaves a replica
LEAVING = 0.3  # seconds in which a client leaves a replica that drains
WHIM = 0.01  # of the requests: after these a client leaves, for no reason


class Line(NamedTuple):
    """A connection of a client to a replica."""

    way: Way
    epoch: int
    """The how-manieth connection of the client it is."""
    life: int
    """Which process of the replica it is to."""


class Replica:
    """One process of the service."""

    def __init__(self, number: int, server: Server) -> None:
        self.process = Process.new(server.world, f"replica {number}")
        self.server = server
        self._network = server.network
        self._lines: dict[str, Line] = {}
        """The latest connection of each client."""
        self._up = True
        self._draining = False
        self._life = 0
        self._cut = self._severed = 0.0
        """Until when nothing passes between it and the clients, and between it and the server."""

    @property
    def _now(self) -> float:
        return self.server.world.now

    def greet(self, way: Way, epoch: int) -> None:
        """Accept a connection of a client, and hear for it from now on."""
        if not self._up or self._draining:
            self._say(way, "refusal", partial(way.refused, epoch))
        elif self._now >= self._cut:
            line = Line(way, epoch, self._life)
            known = self._lines.get(way.prefix)
            if known is None or known.epoch < epoch:
                self._lines[way.prefix] = line
            self.server.hear(way.prefix, self.process, self._push)
            self._say(way, "welcome", partial(way.welcome, self, line))

    def handle(self, line: Line, number: int, request: Request) -> None:
        """Take a request from a connection; the frames of one that has died are gone."""
        if line.life == self._life and self._now >= self._cut:
            self.forward(line, number, request)

    def forward(self, line: Line, number: int, request: Request) -> None:
        """Pass a request on, once. It says every time by the engine's clock, so it may lie here."""
        if self._now < self._severed:
            return
        self.server.request(
            self.process,
            request,
            partial(self._answered, line, number),
            partial(self.lost, line, number, request),
        )

    def _answered(self, line: Line, number: int, result: Result | None, told: float) -> None:
        if line.life == self._life and self._now >= self._severed:
            said = f"answer {line.epoch}.{number}" if self.server.world.tracing else ""
            self._say(line.way, said, partial(line.way.answered, line.epoch, number, result, told))

    def lost(self, line: Line, number: int, request: Request) -> None:  # noqa: ARG002  # a mutant needs it
        """Tell that nobody knows what became of a request."""
        if line.life == self._life:
            self._say(line.way, "error", partial(line.way.lost, line.epoch, number))

    def _push(self, wake: Wake) -> None:
        for prefix, line in self._lines.items():
            if wake.id.startswith(prefix) or not wake.id:
                self._say(line.way, "push", partial(line.way.pushed, line.epoch, wake))

    def _say(self, way: Way, what: str, deliver: Callable[[], object]) -> None:
        if self._now >= self._cut:
            self._network.send(way.process, what, deliver)

    # --- faults -------------------------------------------------------------------------------

    def kill(self, seconds: float) -> None:
        """End at once, and begin anew later. Who is connected is told that the connection broke."""
        lines, self._lines = self._lines, {}
        self._life += 1
        self._up = False
        self.process.frozen = 0.0
        if self._now >= self._cut:
            for line in lines.values():
                line.way.process.call_later(0.01, line.way.broken, line.epoch)
        self.process.call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._up, self._draining = True, False

    def drain(self, seconds: float) -> None:
        """Ask the clients to leave, and end after some time."""
        self._draining = True
        for line in self._lines.values():
            self._say(line.way, "goaway", partial(line.way.asked_to_leave, line.epoch))
        self.process.call_later(seconds, self.kill, seconds)

    def halt(self, seconds: float) -> None:
        """Stand still: what is sent to it lies in its buffers until it goes on."""
        self.process.frozen = max(self.process.frozen, self._now + seconds)

    def cut(self, seconds: float) -> None:
        """Have no network to the clients."""
        self._cut = max(self._cut, self._now + seconds)

    def sever(self, seconds: float) -> None:
        """Have no network to the server."""
        self._severed = max(self._severed, self._now + seconds)


class Way:
    """How a client reaches the server: by a connection to one replica, until it leaves it."""

    def __init__(
        self, process: Process, prefix: str, replicas: Sequence[Replica], rng: Random
    ) -> None:
        server = replicas[0].server
        self.process = process
        self.prefix = prefix
        self.witness = server.witness
        self.replicas = replicas
        self._world = server.world
        self._network = server.network
        self._rng = rng
        self._at = rng.randrange(len(replicas))
        self._push: Push
        self._line: Line | None = None
        self._epoch = 0
        self._sent = 0
        """How many requests were sent on this connection: their answers name them by that."""
        self._pending: dict[int, tuple[Answer | None, Callable[[], object] | None]] = {}

    def hear(self, prefix: str, process: Process, push: Push) -> None:
        """Take the wakes that a replica pushes."""
        assert (prefix, process) == (self.prefix, self.process)
        self._push = push

    def request(
        self,
        client: Process,
        request: Request,
        answer: Answer | None = None,
        cut: Callable[[], object] | None = None,
    ) -> None:
        """Send a request on the present connection. Without one, nothing is sent."""
        line = self._line
        if line is None:
            if not self._epoch:
                self._connect()
            if answer is not None:
                answer(None, 0.0)
            return
        number, self._sent = self._sent, self._sent + 1
        self._pending[number] = answer, cut
        self._network.send(
            self.replicas[self._at].process,
            str(request) if self._world.tracing else "",
            partial(self.replicas[self._at].handle, line, number, request),
            once=request.kind == "claim",
            cut=lambda: client.call_later(0.01, self.broken, line.epoch),
        )
        client.call_later(SILENCE, self._silent, line.epoch, number)
        if not self.witness.calm and self._rng.random() < WHIM:
            client.call_later(self._rng.uniform(0.0, SILENCE), self.broken, line.epoch)

    # --- what a replica says ------------------------------------------------------------------

    def welcome(self, replica: Replica, line: Line) -> None:
        """Go on: the replica hears for this client."""
        if line.epoch == self._epoch and self._line is None:
            self._say(f"is at {replica.process.name} now, epoch {line.epoch}")
            self.witness.seen["moves"] += line.epoch > 1
            self._line = line
            self._push(everyone_of(self.prefix))

    def refused(self, epoch: int) -> None:
        """Try the next one."""
        if epoch == self._epoch and self._line is None:
            self._connect()

    def answered(self, epoch: int, number: int, result: Result | None, told: float) -> None:
        """Take an answer, unless it is one of an earlier connection."""
        if epoch == self._epoch:
            answer, _ = self._pending.pop(number, (None, None))
            if answer is not None:
                answer(result, told)

    def lost(self, epoch: int, number: int) -> None:
        """Take the word that nobody knows what became of a request."""
        if epoch == self._epoch:
            self.forget(*self._pending.pop(number, (None, None)))

    def pushed(self, epoch: int, wake: Wake) -> None:
        """Take a wake."""
        if epoch == self._epoch:
            self._push(wake)

    def asked_to_leave(self, epoch: int) -> None:
        """Leave soon, not all at once."""
        self.process.call_later(self._rng.uniform(0.0, LEAVING), self.broken, epoch)

    # --- moving -------------------------------------------------------------------------------

    def broken(self, epoch: int) -> None:
        """Leave a connection: nobody knows what became of what was not answered."""
        if epoch != self._epoch or self._line is None:
            return
        self._line = None
        pending, self._pending = self._pending, {}
        self._sent = 0
        for each in pending.values():
            self.forget(*each)
        self._connect()

    def forget(self, answer: Answer | None, cut: Callable[[], object] | None) -> None:  # noqa: ARG002  # a mutant needs it
        """Wait for an answer no longer."""
        if cut is not None:
            cut()

    def _silent(self, epoch: int, number: int) -> None:
        if epoch == self._epoch and number in self._pending:
            self.broken(epoch)

    def _connect(self) -> None:
        """Connect to the next replica."""
        self._epoch += 1
        self._at = self.next()
        replica, epoch = self.replicas[self._at], self._epoch
        self._network.send(replica.process, "hello", partial(replica.greet, self, epoch), once=True)
        self.process.call_later(SILENCE, self.refused, epoch)

    def next(self) -> int:
        """Tell which replica it goes to."""
        return (self._at + 1) % len(self.replicas)

    def _say(self, what: str) -> None:
        if self._world.tracing:
            self._world.say(self.process.name, what)
