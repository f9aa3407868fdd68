"""Twins: an engine and the reference model, on one common time, and how they are compared.

The time is set so that no claim expires near an operation. So the real milliseconds that an
operation takes cannot change its result.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from lockfast.core.queue import Queues
from lockfast.errors import KindMismatch
from lockfast.port import TOMB_MARGIN, Ask, Standing, Wake
from lockfast.testing.harness.stage import Actor, Stage

T = TypeVar("T")
NAMES = ("a", "{b}*")
CLEAR = 0.25  # seconds between the time of an operation and any expiry, at least
DRIFT = 0.1  # real seconds that may pass before the time is set again
LATE = 0.2  # real seconds after which a claim may have expired in one twin and not in the other
PAUSE = 1.0  # real seconds after which an engine may be wrong about the server's clock
NEAR = 0.25  # seconds by which two measures of the same time may differ


class Claim:
    """One claim that was sent to both twins."""

    def __init__(self, ask: Ask, late: float) -> None:
        """Keep the claim. `late`: its `not_after` by the process's clock, in the machine's time."""
        self.ask = ask
        self.late = late
        self.fixed: float | None = None
        """The same by the engine's clock, when it was first sent."""


class Twins(RuleBasedStateMachine):
    """Both twins, and the methods that compare them. `state_machine` has the rules."""

    names: Sequence[str] = NAMES
    """All names that have claims."""

    def __init__(self, stage: Stage) -> None:
        """Start with a wiped engine and an empty model."""
        super().__init__()
        stage.bench.wipe()
        self.stage = stage
        self.model = Queues()
        self.claims: list[Claim] = []
        self.tickets: dict[int, int] = {}  # the engine's ticket of a claim, by the model's
        self.latest: Counter[str] = Counter()
        self.heard: Counter[str] = Counter()
        self.expected: Counter[str] = Counter()
        self.optional: Counter[str] = Counter()
        self.floors: dict[str, set[int]] = {}
        self.unsure: list[tuple[str, int]] = []  # pushes whose floor is not known from the model
        self.time = 1_000_000.0
        self.spoiled = False  # the computer paused for too long, so that the twins may differ
        self.rewound = 0.0  # how far the engine's clock has fallen behind the process's
        self.actor = self.run(self._open())
        self.began = stage.bench.now()

    async def _open(self) -> Actor:
        actor = self.stage.actor()
        await actor.attend()
        return actor

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the stage's mode."""
        return self.stage.mode.run(coroutine)

    def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the engine's answer. If that took too long, mark the run as spoiled.

        A spoiled run continues without comparing, because Hypothesis must be able to replay it.
        """
        answer = self.run(coroutine)
        self.spoiled = self.spoiled or self.drift() > LATE
        return answer

    def teardown(self) -> None:
        """Compare the pushes a last time, and close the engine."""
        self.compare_pushes()
        self.run(self.stage.clear())

    def edges(self) -> list[float]:
        """Return the times at which claims expire, copies come too late, and tombstones end."""
        edges = [self.last(each) + extra for each in self.claims for extra in (0, TOMB_MARGIN)]
        for name in self.names:
            edges += [self.time + entry.left for entry in self.model.entries(name, self.time)]
        return edges

    def last(self, claim: Claim) -> float:
        """Return the time by the engine's clock after which no copy of a claim is applied. A client
        of the service fixes it when it sends the first copy.
        """
        if claim.fixed is None or claim.ask.fixed is None:
            return claim.late - self.rewound
        return claim.fixed

    def known(self, claim: Claim) -> Ask:
        """Return a claim as the model gets it."""
        ask, late = claim.ask, self.last(claim)
        claim.fixed = late if claim.fixed is None else claim.fixed
        return Ask(ask.id, ask.shape, ask.queue, late, ask.payload)

    def drift(self) -> float:
        """Return how much real time has passed since the time was set."""
        return self.stage.bench.now() - self.began

    def set_time(self, wanted: float, step: float) -> None:
        """Move both clocks to `wanted`, or by further steps until no expiry is near."""
        edges = self.edges()
        while any(abs(wanted - edge) < CLEAR for edge in edges):
            wanted += step
        bench = self.stage.bench
        read, ahead = bench.now(), bench.ahead
        moved = wanted - (self.time + read - self.began)
        if moved > 0:
            self.run(self.stage.advance(moved))
        else:
            bench.rewind(-moved)
        # A claim that expired before the clock went back is deleted at the engine, and alive in the
        # model. And an engine that read a reply late takes the server's clock for an earlier one.
        passed = bench.now() - (bench.ahead - ahead) - self.began
        self.spoiled = self.spoiled or passed > (LATE if moved <= 0 else PAUSE)
        # The bench may have moved the process's clock together with the engine's, or not.
        self.began = read + bench.ahead - ahead
        self.rewound += bench.ahead - ahead - moved
        self.time = wanted

    def tick(self) -> float:
        """Return the time for the next operation. If too much real time has passed, set it anew."""
        if self.drift() > DRIFT:
            self.set_time(self.time + self.drift() + CLEAR, CLEAR)
        return self.time

    def send(self, claim: Claim) -> None:
        """Send a claim to both, and compare the answers."""
        ask, now = claim.ask, self.time
        known = self.known(claim)
        theirs = self.caught(lambda: self.ask(self.actor.engine.claim(ask, self.actor.deadline)))
        ours = self.caught(lambda: self.model.claim(known, now))
        if self.spoiled:
            return
        if isinstance(ours, KindMismatch):
            assert isinstance(theirs, KindMismatch), theirs
            assert (theirs.asked, theirs.ruling) == (ours.asked, ours.ruling)
        else:
            assert not isinstance(theirs, KindMismatch), theirs
            self.compare(ask, theirs, ours)
        self.compare_pushes(ask)

    def send_all(self, claims: list[Claim]) -> None:
        """Send several claims to both, to the engine in one call, and compare each answer."""
        now = self.time
        asks = [claim.ask for claim in claims]
        theirs = self.ask(self.actor.engine.claim_all(asks, self.actor.deadline))
        for claim, found in zip(claims, theirs, strict=True):
            ask = claim.ask
            known = self.known(claim)
            wanted = self.caught(lambda known=known: self.model.claim(known, now))  # type: ignore[misc]  # of the loop
            if self.spoiled:
                continue
            assert isinstance(found, Exception) == isinstance(wanted, Exception), found
            if not isinstance(found, Exception) and not isinstance(wanted, Exception):
                self.compare(ask, found, wanted)
        self.compare_pushes(*asks)

    @staticmethod
    def caught(
        claim: Callable[[], Standing | None],
    ) -> Standing | KindMismatch | None:
        """Return the answer to a claim, or the `KindMismatch` that it raised."""
        try:
            return claim()
        except KindMismatch as error:
            return error

    def look(self) -> None:
        """Make both look at every name, which removes expired claims.

        Claim the whole capacity without queueing. If the name is free, resign the claim at once.
        """
        for name in self.names:
            now = self.tick()
            entries = self.model.entries(name, now)
            kind, capacity = (entries[0].kind, entries[0].capacity) if entries else (None, 1)
            ask = self.actor.ask(
                name, ttl=2, kind=kind, capacity=capacity, weight=capacity, queue=False
            )
            claim = Claim(ask, now + self.rewound + ask.shape.wait_ttl)
            self.send(claim)
            if not entries:
                theirs = self.ask(self.actor.resign(ask))
                ours = self.model.resign(ask, now, doubt=False)
                assert self.spoiled or theirs == [ours]

    def compare(self, ask: Ask, theirs: Standing | None, ours: Standing | None) -> None:
        """Compare the two standings of one claim, field by field."""
        if self.spoiled:
            return
        said = (ask.shape, theirs, ours)
        assert (theirs is None) == (ours is None), said
        if theirs is None or ours is None:
            return
        assert (theirs.granted, theirs.ahead) == (ours.granted, ours.ahead), said
        if ours.ticket:
            self.compare_tickets(ask, theirs.ticket, ours.ticket)
            assert theirs.behind == ours.behind, said
            assert theirs.floor == self.tickets[ours.floor], said
            assert self.near(theirs.left, ours.left), said
        assert (theirs.recheck is None) == (ours.recheck is None), said
        if theirs.recheck is not None and ours.recheck is not None:
            assert self.near(theirs.recheck, ours.recheck), said
        assert (theirs.blocker is None) == (ours.blocker is None), said
        if theirs.blocker is not None and ours.blocker is not None:
            assert theirs.blocker.id == ours.blocker.id, said
            assert theirs.blocker.ticket == self.tickets[ours.blocker.ticket], said
            assert theirs.blocker.payload == ours.blocker.payload, said

    def near(self, theirs: float, ours: float) -> bool:
        """Return whether the two times agree. The engine's may be less, by `Bench.least`."""
        return ours * self.stage.bench.least - NEAR < theirs < ours + NEAR

    def compare_tickets(self, ask: Ask, theirs: int, ours: int) -> None:
        """Check that a claim keeps its ticket, and that a later claim has a higher one."""
        if ours not in self.tickets:
            assert theirs > self.latest[ask.shape.name], "tickets went back"
            self.latest[ask.shape.name] = theirs
            self.tickets[ours] = theirs
        assert theirs == self.tickets[ours], "a claim changed its ticket"

    def compare_pushes(self, *callers: Ask) -> None:
        """Compare the pushes so far.

        The engine may leave out pushes to `callers`, who learn the same from the reply.
        """
        if self.spoiled:
            return
        mine = {ask.id for ask in callers}
        heads = {self.tickets.get(self._floor(ask.shape.name), 0) for ask in callers}
        wakes, self.model.wakes = self.model.wakes, []
        for wake in wakes:
            floor = self.tickets[wake.floor]
            self.floors.setdefault(wake.id, set()).update({floor}, heads)
            (self.optional if wake.id in mine else self.expected)[wake.id] += 1
        self.run(self._hear())
        assert not self.missing(), "a push is missing"
        surplus = self.surplus()
        early = self._early() if surplus or self.unsure else {}
        assert not surplus - Counter(early.keys()), "a push too many"
        self.optional += surplus  # the model pushes these only if a later operation makes it look
        for id_, floor in self.unsure:
            known = self.floors.get(id_, set()) | {early.get(id_, 0)}
            assert floor in known, "a push with a wrong floor"
        self.unsure = []

    def _early(self) -> dict[str, int]:
        """Return the ids that a look at all names would wake now, with their floors.

        An engine may find expired claims by itself, before an operation looks.
        """
        model = copy.deepcopy(self.model)
        for name in self.names:
            model.resign(self.actor.ask(name), self.time, doubt=False)
        return {wake.id: self.tickets[wake.floor] for wake in model.wakes}

    def _floor(self, name: str) -> int:
        entries = self.model.entries(name, self.time)
        return entries[0].ticket if entries else 0

    async def _hear(self) -> None:
        end = self.stage.bench.now() + 5.0  # a loaded server is late
        self._take(await self.actor.engine.listen(self.stage.bench.now()))
        while self.missing() and self.stage.bench.now() < end:
            self._take(await self.actor.engine.listen(self.stage.bench.now() + 0.5))

    def surplus(self) -> Counter[str]:
        """Return the pushes for which the model has no reason, by claim."""
        return self.heard - self.expected - self.optional

    def missing(self) -> Counter[str]:
        """Return the pushes that have not come yet, by claim."""
        return self.expected - self.heard

    def _take(self, wakes: list[Wake]) -> None:
        for wake in wakes:
            if wake.granted:  # other wakes are only hints to look
                self.heard[wake.id] += 1
                if wake.floor not in self.floors.get(wake.id, ()):
                    self.unsure.append((wake.id, wake.floor))
