"""The properties that follow from the one rule, held against the reference model."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.core.queue import Queues
from lockfast.errors import KindMismatch
from lockfast.port import Ask, Entry, Kind, Shape

CAPACITY = 5
SIZES = [(capacity, weight) for capacity in (3, 5, 8) for weight in range(1, capacity + 1)]
NAME = "x"

steps = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.integers(0, len(SIZES) - 1)),
        st.tuples(st.just("resign"), st.integers(0, 30)),
        st.tuples(st.just("renew"), st.integers(0, 30)),
        st.tuples(st.just("advance"), st.integers(-7, 7)),
    ),
    max_size=60,
)


def ask(
    number: int,
    weight: int = 1,
    *,
    kind: Kind = Kind.SEMAPHORE,
    capacity: int = CAPACITY,
    not_after: float = 1e9,
) -> Ask:
    return Ask(
        f"{number:032x}",
        Shape(NAME, 5.0, kind, capacity, weight),
        queue=True,
        not_after=not_after,
        payload=b"",
    )


@dataclass
class World:
    """The model, its clock, and what an observer has seen of it."""

    queues: Queues = field(default_factory=Queues)
    now: float = 1000.0
    asks: list[Ask] = field(default_factory=list)
    granted: set[str] = field(default_factory=set)
    tickets: list[int] = field(default_factory=list)
    snapshots: list[list[Entry]] = field(default_factory=list)

    def step(self, kind: str, number: int) -> None:
        if kind == "advance":
            self.now += number
        elif kind == "claim":
            capacity, weight = SIZES[number]
            self.asks.append(ask(len(self.asks), weight, capacity=capacity))
            standing = self.queues.claim(self.asks[-1], self.now)
            assert standing is not None
            assert standing.ticket not in self.tickets
            self.tickets.append(standing.ticket)
        elif number < len(self.asks):
            if kind == "renew":
                self.queues.renew(self.asks[number], self.now)
            else:
                self.queues.resign(self.asks[number], self.now, doubt=False)
        self.queues.renew(ask(10**6), self.now)  # a look: it deletes the expired, and grants

    def entries(self) -> list[Entry]:
        return self.queues.entries(NAME, self.now)


@given(steps)
def test_what_follows_from_the_rule_holds_after_every_step(script: list[tuple[str, int]]) -> None:
    world = World()
    for kind, number in script:
        before = world.granted
        world.step(kind, number)
        entries = world.entries()
        let_in = [e for e in entries if e.granted]
        # Granted weight never exceeds the largest capacity, and the head is always granted.
        assert sum(e.weight for e in let_in) <= max((e.capacity for e in let_in), default=0)
        assert not entries or entries[0].granted
        # Exactly a prefix, in the order of tickets: strict FIFO, nobody is overtaken.
        assert entries == sorted(entries, key=lambda e: e.ticket)
        assert let_in == entries[: len(let_in)]
        # The rule itself, from its own words.
        ahead, open_ = 0, True
        for entry in entries:
            ahead += entry.weight
            open_ = open_ and ahead <= entry.capacity
            assert entry.granted == open_
        # A live granted claim is never un-granted.
        world.granted = {e.id for e in let_in}
        assert {e.id for e in entries if e.id in before} <= world.granted
        # No expiry is further away than one life, also after the clock went back.
        assert all(0 < e.left <= 5.0 for e in entries)


@given(steps, st.data())
def test_an_old_snapshot_only_overstates_what_is_ahead(
    script: list[tuple[str, int]], data: st.DataObject
) -> None:
    """So the rule may be evaluated in the client, on whatever it read (etcd, ZooKeeper)."""
    world = World()
    for kind, number in script:
        world.step(kind, number)
        world.snapshots.append(world.entries())
    if not world.snapshots:
        return
    old = data.draw(st.sampled_from(world.snapshots))
    now = {e.id: e for e in world.entries()}
    ahead = 0
    for entry in old:
        ahead += entry.weight
        if ahead > entry.capacity:
            break
        if entry.id in now:
            assert now[entry.id].granted


@given(steps)
def test_grants_happen_in_the_order_of_tickets(script: list[tuple[str, int]]) -> None:
    world = World()
    highest = 0
    seen: set[str] = set()
    for kind, number in script:
        world.step(kind, number)
        for entry in world.entries():
            if entry.granted and entry.id not in seen:
                assert entry.ticket > highest
                highest = entry.ticket
                seen.add(entry.id)


@given(st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=50))
def test_tickets_increase_whatever_the_clock_does(clock: list[int]) -> None:
    queues = Queues()
    tickets = []
    for number, now in enumerate(clock):
        standing = queues.claim(ask(number, not_after=1e12), float(now))
        assert standing is not None
        tickets.append(standing.ticket)
        queues.resign(ask(number), float(now), doubt=False)
    assert tickets == sorted(set(tickets))


def test_a_claim_of_another_kind_is_an_error_and_not_a_guess() -> None:
    queues = Queues()
    queues.claim(ask(1), 0.0)
    with pytest.raises(KindMismatch, match="in use as a semaphore, and was requested as a lock"):
        queues.claim(ask(2, kind=Kind.LOCK, capacity=1), 0.0)
    assert [e.id for e in queues.entries(NAME, 0.0)] == [ask(1).id]


def test_a_pruned_id_stays_dead() -> None:
    """Every copy carries a time that is over when the first one's entry can be gone."""
    queues = Queues()
    copy = ask(1, not_after=5.0)
    assert queues.claim(copy, 0.0) is not None
    assert queues.renew(copy, 5.0) is None
    assert queues.claim(copy, 5.1) is None


def test_a_tombstone_outlives_every_copy_also_where_the_claim_was_present() -> None:
    queues = Queues()
    copy = ask(1, not_after=5.0)
    queues.claim(copy, 0.0)
    assert queues.resign(copy, 1.0, doubt=True)
    assert queues.claim(copy, 5.0) is None


def test_a_tombstone_is_never_shortened() -> None:
    queues = Queues()
    queues.resign(ask(1, not_after=100.0), 0.0, doubt=True)
    queues.resign(ask(1, not_after=10.0), 0.0, doubt=True)
    assert queues.claim(ask(1), 99.0) is None
