"""Runs random operations on an engine and the reference model, and checks that they agree.

The environment variable `LOCKFAST_EXAMPLES` sets how many histories Hypothesis tries.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from lockfast.port import SHARED, TOMB_MARGIN, Kind
from lockfast.testing.harness.stage import Contract, Stage
from lockfast.testing.harness.twins import CLEAR, NAMES, Claim, Twins

Sizes = tuple[Kind, int, int]
"""A kind, a capacity and a weight."""
SIZES: list[Sizes] = [(Kind.LOCK, 1, 1)] * 2
SIZES += [(Kind.READ_WRITE, SHARED, weight) for weight in (1, SHARED)]
SIZES += [
    (Kind.SEMAPHORE, capacity, weight)
    for capacity, weight in [(1, 1), (3, 1), (3, 2), (3, 3), (5, 1), (5, 4)]
]
TTLS = [2, 3, 5, 12]  # with 12, a waiter lives for 10 without a renewal
EXAMPLES = int(os.environ.get("LOCKFAST_EXAMPLES", "50"))


class SteadyMachine(Twins):
    """The operations that Hypothesis chooses from, while clocks only go forward."""

    stretch = 1
    """The factor by which every ttl is multiplied."""

    @rule(seconds=st.sampled_from([0.5, 1.5, 2.5, 4.5, 11.5]))
    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.set_time(self.time + self.drift() + seconds, CLEAR)

    @rule(
        name=st.sampled_from(["a", "a", *NAMES]),
        sizes=st.sampled_from(SIZES),
        ttl=st.sampled_from(TTLS),
        queue=st.sampled_from([True, True, False]),
        stray=st.sampled_from([False, False, False, False, True]),
        payload=st.binary(max_size=3),
    )
    def claim(  # noqa: PLR0913, PLR0917  # each is one independent part of a claim
        self,
        name: str,
        sizes: Sizes,
        ttl: int,
        queue: bool,  # noqa: FBT001  # drawn by Hypothesis
        stray: bool,  # noqa: FBT001  # the same
        payload: bytes,
    ) -> None:
        """Send a new claim, mostly of the kind of the claims that are on the name already."""
        self.tick()
        kind, capacity, weight = sizes
        entries = self.model.entries(name, self.time)
        if entries and not stray and entries[0].kind is not kind:
            kind, whole = entries[0].kind, weight == capacity
            capacity = entries[0].capacity
            weight = capacity if whole else 1
        ask = self.actor.ask(
            name,
            ttl=ttl * self.stretch,
            kind=kind,
            capacity=capacity,
            weight=weight,
            queue=queue,
            payload=payload,
        )
        claim = Claim(ask, self.time + self.rewound + ask.shape.wait_ttl)
        self.claims.append(claim)
        self.send(claim)

    @rule(
        sizes=st.lists(st.sampled_from(SIZES), min_size=len(NAMES), max_size=len(NAMES)),
        ttl=st.sampled_from(TTLS),
    )
    def claim_all(self, sizes: list[Sizes], ttl: int) -> None:
        """Send claims on all names in one call, none of them to queue, as `lock_all` does."""
        self.tick()
        claims = []
        for name, (kind, capacity, weight) in zip(NAMES, sizes, strict=True):
            life = ttl * self.stretch
            ask = self.actor.ask(
                name, ttl=life, kind=kind, capacity=capacity, weight=weight, queue=False
            )
            claims.append(Claim(ask, self.time + self.rewound + ask.shape.wait_ttl))
        self.claims += claims
        self.send_all(claims)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        """Send a claim again, as a retry or as a copy that arrives late."""
        self.tick()
        self.send(data.draw(st.sampled_from(self.claims)))

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        """Renew some claims in one call. Some of them may be gone."""
        self.renew_all(
            data.draw(st.lists(st.sampled_from(self.claims), min_size=1, max_size=4, unique=True))
        )

    def renew_all(self, chosen: list[Claim]) -> None:
        """Renew claims in one call."""
        now = self.tick()
        asks = [claim.ask for claim in chosen]
        theirs = self.ask(self.actor.renew(*asks))
        ours = [self.model.renew(ask, now) for ask in asks]
        # In one call, an earlier renewal may change what a later one reports. The port leaves open
        # whether it does, so only the state afterwards counts.
        for ask, found, wanted in zip(asks, theirs, ours, strict=True):
            assert not isinstance(found, Exception), found
            if len(asks) == 1:
                self.compare(ask, found, wanted)
            else:
                same = (found is None) == (wanted is None)
                assert self.spoiled or same, (ask.shape, found, wanted)
        self.compare_pushes(*asks)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), doubt=st.booleans())
    def resign(self, data: st.DataObject, doubt: bool) -> None:  # noqa: FBT001  # drawn
        """Resign some claims in one call. Some of them may be gone."""
        chosen = data.draw(
            st.lists(st.sampled_from(self.claims), min_size=1, max_size=3, unique=True)
        )
        now = self.tick()
        asks = [claim.ask for claim in chosen]
        theirs = self.ask(self.actor.resign(*asks, doubt=doubt))
        ours = [self.model.resign(self.known(claim), now, doubt=doubt) for claim in chosen]
        assert self.spoiled or theirs == ours
        self.compare_pushes(*asks)

    def learn(self) -> None:
        """Let the engine learn the time: it reads it in each reply."""
        assert self.run(self.actor.renew(self.actor.ask("elsewhere"))) == [None]

    @rule(name=st.sampled_from(NAMES))
    def inspect(self, name: str) -> None:
        """Compare what `inspect` shows of a name."""
        now = self.tick()
        theirs = self.ask(self.actor.entries(name))
        ours = self.model.entries(name, now)
        if self.spoiled:
            return
        assert [entry.id for entry in theirs] == [entry.id for entry in ours]
        for found, wanted in zip(theirs, ours, strict=True):
            assert found.ticket == self.tickets[wanted.ticket]
            assert found.kind is wanted.kind
            assert (found.weight, found.capacity) == (wanted.weight, wanted.capacity)
            assert found.payload == wanted.payload
            assert self.near(found.left, wanted.left)
            assert found.granted or not wanted.granted


class QueueMachine(SteadyMachine):
    """The same operations, and one that moves the engine's clock back."""

    @rule(seconds=st.sampled_from([0.5, 2.5, 30.5]))
    def rewind(self, seconds: float) -> None:
        """Move the engine's clock back. Make both look at every name before and after that.

        Before, because an expired claim that no operation has found yet could come back to life.
        After, because an engine may wait until the next claim before it shortens expiries that
        are now too far away. If a client fixes the time of its claims by the engine's clock, a copy
        that was too late would be in time again. The model has forgotten its tombstone by then, and
        the engine may not have, so such a copy is not sent.
        """
        self.look()
        self.claims = [
            each
            for each in self.claims
            if each.ask.fixed is None or self.last(each) + TOMB_MARGIN > self.time
        ]
        self.set_time(self.time + self.drift() - seconds, -CLEAR)
        self.learn()
        self.look()


class StillMachine(SteadyMachine):
    """The operations for an engine whose clock a test cannot move: no claim expires."""

    stretch = 20

    def advance(self, seconds: float) -> None:
        """Do nothing. This override is no rule, so Hypothesis does not choose it."""

    def tick(self) -> float:
        """Set the model's time to the real clock, and return it."""
        read = self.stage.bench.now()
        self.time += read - self.began
        self.began = read
        return self.time


class MachineContract(Contract):
    """Compares an engine with the reference model."""

    machine: type[SteadyMachine] = QueueMachine
    """The operations to try: `SteadyMachine` for an engine whose clock cannot go back,
    `StillMachine` for one whose clock a test cannot move."""
    examples = EXAMPLES
    """How many histories to try. Set it lower for an engine that writes each request to a disk."""

    def test_the_engine_and_the_reference_model_agree(self, stage: Stage) -> None:
        run_state_machine_as_test(
            lambda: self.machine(stage),  # type: ignore[arg-type]  # a factory is documented too
            settings=settings(
                max_examples=self.examples,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                report_multiple_bugs=False,
            ),
        )
