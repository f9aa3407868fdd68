"""The waiters of a client on etcd: one watch for many, and no departure is missed in any order."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lockfast.engines.etcd.keys import CLAIMS, Row
from lockfast.engines.etcd.messages import Heard, heard
from lockfast.engines.etcd.protobuf import fields, number, numbers, text
from lockfast.engines.etcd.waiters import Ahead, Wait, Waits
from lockfast.port import Kind, Wake

LOCK, SHARED = b"lock", b"shared"
KINDS = {LOCK: Kind.LOCK, SHARED: Kind.SEMAPHORE}
SIZES = [(1, 1), (2, 1), (3, 1), (3, 3), (6, 1), (6, 3), (6, 4)]
"""Capacities and weights."""


def told_of(rows: list[Row]) -> list[Ahead]:
    """Say of claims what a waiter behind them is told."""
    return [(row.key, row.revision, row.weight, row.capacity) for row in rows]


class Store:
    """What etcd keeps: the claims, what has gone, and one stream of watches."""

    def __init__(self) -> None:
        """Begin empty, at revision 1."""
        self.revision = 1
        self.rows: dict[bytes, Row] = {}
        self.gone: list[tuple[int, bytes]] = []
        self.compacted = 0
        self.watches: dict[int, tuple[bytes, bytes, int]] = {}

    def put(self, name: bytes, number_: int, weight: int, capacity: int = 3) -> Row:
        """Append a claim. The capacity is that of a semaphore."""
        self.revision += 1
        key = CLAIMS + name + b"/%032d" % number_
        room = 1 if name == LOCK else capacity
        row = Row(key, self.revision, 7, KINDS[name], room, weight, 30.0, b"")
        self.rows[key] = row
        return row

    def delete(self, row: Row) -> None:
        """Remove a claim."""
        self.revision += 1
        del self.rows[row.key]
        self.gone.append((self.revision, row.key))

    def ahead(self, row: Row) -> list[Row]:
        """List what stands before a claim."""
        queue = [other for other in self.rows.values() if other.prefix == row.prefix]
        return [other for other in queue if other.revision < row.revision]

    def lets_in(self, row: Row) -> bool:
        """Apply the rule: it fits, and so does each claim ahead of it."""
        weight = 0
        for each in [*self.ahead(row), row]:
            weight += each.weight
            if weight > each.capacity:
                return False
        return True

    def told(self, messages: list[bytes]) -> None:
        """Take in what a client says on its stream."""
        for message in messages:
            for field, said in fields(message):
                assert isinstance(said, bytes)
                if field == 1:
                    read = dict(fields(said))
                    key, until, begin, ident = read[1], read.get(2, b""), read[3], read[7]
                    assert isinstance(key, bytes)
                    assert isinstance(until, bytes)
                    assert isinstance(begin, int)
                    assert isinstance(ident, int)
                    assert ident not in self.watches, "etcd refuses an ident twice on one stream"
                    self.watches[ident] = (key, until, begin)
                else:
                    self.watches.pop(numbers(said)[1], None)

    def says(self, ident: int) -> list[Heard]:
        """Tell what a watch has not told yet."""
        key, until, begin = self.watches[ident]
        if begin <= self.compacted:
            del self.watches[ident]
            return [heard(number(2, ident) + number(4, 1) + number(5, self.compacted))]
        news = [
            (when, each)
            for when, each in self.gone
            if when >= begin and (each == key if not until else key <= each < until)
        ]
        self.watches[ident] = (key, until, self.revision + 1)
        events = b"".join(text(11, text(2, text(1, each) + number(3, at))) for at, each in news)
        return [heard(number(2, ident) + events)] if news else []


class Watching(RuleBasedStateMachine):
    """Claims come and go, replies and pushes come late, streams break, and etcd compacts."""

    def __init__(self) -> None:
        """Begin with an empty store."""
        super().__init__()
        self.store = Store()
        self.waits = Waits(0)
        self.replies: list[tuple[Row, list[Row], int]] = []
        self.waiting: dict[str, Row] = {}
        self.names = 0
        self.broken: dict[str, bool] = {}
        """The claims that an operator has removed, and whether they were let in by then."""

    @rule(name=st.sampled_from([LOCK, SHARED, SHARED]), size=st.sampled_from(SIZES))
    def come(self, name: bytes, size: tuple[int, int]) -> None:
        self.names += 1
        capacity, weight = size
        row = self.store.put(name, self.names, 1 if name == LOCK else weight, capacity)
        if not self.store.lets_in(row):
            self.replies.append((row, self.store.ahead(row), self.store.revision))

    @rule(which=st.integers(0, 99))
    def answer(self, which: int) -> None:
        if self.replies:
            self._watch(*self.replies.pop(which % len(self.replies)))

    def _watch(self, row: Row, ahead: list[Row], since: int) -> None:
        if row.key not in self.store.rows:
            return
        known = told_of(ahead)
        sure = len(ahead) == 1
        self.waiting[row.id] = row
        wait = Wait(row, known[-1:] if row.kind is Kind.LOCK else known, since, sure=sure)
        self.store.told(self.waits.add(wait))

    @rule(which=st.integers(0, 99))
    def leave(self, which: int) -> None:
        if self.store.rows:
            self._leave(list(self.store.rows.values())[which % len(self.store.rows)])

    def _leave(self, row: Row) -> None:
        self.store.delete(row)
        if self.waiting.pop(row.id, None) is not None:
            self.store.told(self.waits.drop([row.id]))

    @rule(
        sizes=st.lists(st.sampled_from(SIZES), min_size=3, max_size=5),
        leave=st.lists(st.integers(0, 4), max_size=3, unique=True),
    )
    def crowd(self, sizes: list[tuple[int, int]], leave: list[int]) -> None:
        """Some come to an empty semaphore, and some of those leave, while nothing is late."""
        for row in [each for each in self.store.rows.values() if each.kind is Kind.SEMAPHORE]:
            self._leave(row)
        before = set(self.store.rows)
        for size in sizes:
            self.come(SHARED, size)
        rows = [row for key, row in self.store.rows.items() if key not in before]
        self.catch_up()
        for place in leave:
            if place < len(rows):
                self._leave(rows[place])
                self.catch_up()

    @rule(which=st.integers(0, 99))
    def remove(self, which: int) -> None:
        """An operator removes a claim, and its client does not know."""
        if self.store.rows:
            row = list(self.store.rows.values())[which % len(self.store.rows)]
            self.broken[row.id] = self.store.lets_in(row)
            self.store.delete(row)

    @rule(which=st.integers(0, 99))
    def push(self, which: int) -> None:
        if self.store.watches:
            idents = list(self.store.watches)
            self._hear(self.store.says(idents[which % len(idents)]))

    @rule()
    def catch_up(self) -> None:
        """Everything that is under way arrives."""
        while self.replies:
            self._watch(*self.replies.pop())
        for ident in list(self.store.watches):
            if ident in self.store.watches:
                self._hear(self.store.says(ident))

    def _hear(self, messages: list[Heard]) -> None:
        wakes, unsure, told = self.waits.hear(messages)
        self.store.told(told)
        for wake in wakes:
            row = self.waiting.pop(wake.id)
            if wake.granted:
                assert self.store.lets_in(row)
                assert self.broken.get(row.id, True), "it was removed while it waited"
            else:
                self._look(row)
        for wait in unsure:
            self._look(self.waiting.pop(wait.id))

    def _look(self, row: Row) -> None:
        if row.key in self.store.rows and not self.store.lets_in(row):
            self._watch(row, self.store.ahead(row), self.store.revision)

    @rule()
    def lose_the_stream(self) -> None:
        self.store.watches.clear()
        self.store.told(self.waits.again())

    @rule()
    def compact(self) -> None:
        self.store.compacted = self.store.revision

    @invariant()
    def watches_are_shared(self) -> None:
        shared = [key for key, until, _ in self.store.watches.values() if until]
        assert len(shared) == len(set(shared)), "two watches on one name"

    def teardown(self) -> None:
        for reply in self.replies:
            self._watch(*reply)
        for _ in range(2 * len(self.store.gone) + 2):
            for ident in list(self.store.watches):
                if ident in self.store.watches:
                    self._hear(self.store.says(ident))
        there = [row for row in self.waiting.values() if row.key in self.store.rows]
        late = [row.id for row in there if self.store.lets_in(row)]
        assert not late, "somebody is let in, and was not told"
        assert len(self.waits) == len(self.waiting)


TestWatching = Watching.TestCase


def test_many_waiters_for_one_name_are_one_watch_and_each_is_told_once() -> None:
    store, waits = Store(), Waits(0)
    holders = [store.put(SHARED, number_, 1) for number_ in range(3)]
    rows = [store.put(SHARED, number_, 1) for number_ in range(3, 100)]
    for row in rows:
        store.told(waits.add(Wait(row, told_of(store.ahead(row)), row.revision, sure=False)))
    assert len(store.watches) == 1
    store.delete(holders[0])
    (message,) = store.says(next(iter(store.watches)))
    assert message.gone
    wakes, unsure, told = waits.hear([message])
    assert wakes == [Wake(rows[0].id, granted=True, floor=holders[1].revision)]
    assert (unsure, told) == ([], [])


def test_one_with_an_older_snapshot_hears_what_was_told_before_it_came() -> None:
    store, waits = Store(), Waits(0)
    holders = [store.put(SHARED, number_, 1) for number_ in range(3)]
    other, late, first = store.put(SHARED, 3, 3), store.put(SHARED, 4, 1), store.put(SHARED, 5, 3)
    everyone = told_of([*holders, other, late])
    store.told(waits.add(Wait(first, everyone, first.revision, sure=False)))
    slow = Wait(late, everyone[:4], late.revision, sure=False)
    for row in (holders[0], other):
        store.delete(row)
    waits.hear(store.says(next(iter(store.watches))))
    store.told(waits.add(slow))
    wakes, _, _ = waits.hear(store.says(next(iter(store.watches))))
    assert [wake.id for wake in wakes if wake.granted] == [late.id]


def test_another_stream_goes_on_with_the_very_next_departure() -> None:
    store, waits = Store(), Waits(0)
    holders = [store.put(SHARED, number_, 1) for number_ in range(3)]
    row = store.put(SHARED, 3, 2)
    store.told(waits.add(Wait(row, told_of(holders), row.revision, sure=False)))
    store.delete(holders[0])
    assert waits.hear(store.says(next(iter(store.watches))))[0] == []
    store.watches.clear()
    store.delete(holders[1])
    store.told(waits.again())
    wakes, _, _ = waits.hear(store.says(next(iter(store.watches))))
    assert [wake.id for wake in wakes] == [row.id]


def test_an_answer_to_our_own_cancellation_is_no_refusal() -> None:
    """Taken for one, it closed the stream, and each hand-over waited seconds for the next."""
    canceled = number(2, 5) + number(4, 1)
    ours, refused = heard(canceled), heard(canceled + text(6, b"permission denied"))
    assert (ours.refused, ours.ended) == (None, True)
    assert (refused.refused, refused.ended) == ("permission denied", False)
    assert heard(canceled + number(5, 9)).ended  # compacted


def test_a_waiter_that_was_removed_is_not_let_in_by_a_later_departure() -> None:
    store, waits = Store(), Waits(0)
    holder, row = store.put(LOCK, 0, 1), store.put(LOCK, 1, 1)
    store.told(waits.add(Wait(row, told_of([holder]), row.revision, sure=True)))
    store.delete(row)
    store.delete(holder)
    wakes, unsure, _ = waits.hear(store.says(next(iter(store.watches))))
    assert (wakes, unsure) == ([Wake(row.id, granted=False)], [])


@pytest.mark.parametrize(("leaves", "woken"), [(0, [1, 2, 3]), (1, [2, 3]), (2, [])])
def test_a_waiter_that_fits_waits_for_the_smaller_one_ahead_of_it(
    leaves: int, woken: list[int]
) -> None:
    store, waits = Store(), Waits(0)
    sizes = [(4, 8), (1, 3), (1, 8), (2, 9)]  # all but the second would fit beside the first
    rows = [store.put(SHARED, number_, *size) for number_, size in enumerate(sizes)]
    for row in rows[1:]:
        store.told(waits.add(Wait(row, told_of(store.ahead(row)), row.revision, sure=False)))
    store.delete(rows[leaves])
    wakes, unsure, _ = waits.hear(store.says(next(iter(store.watches))))
    assert [wake.id for wake in wakes if wake.granted] == [rows[place].id for place in woken]
    assert unsure == []


def test_a_waiter_for_the_only_permit_of_a_semaphore_watches_the_whole_queue() -> None:
    store, waits = Store(), Waits(0)
    rows = [store.put(SHARED, number_, 1, capacity) for number_, capacity in enumerate((5, 5, 1))]
    store.told(waits.add(Wait(rows[2], told_of(rows[:2]), rows[2].revision, sure=False)))
    heard_: list[list[Wake]] = []
    for row in (rows[1], rows[0]):
        store.delete(row)
        heard_.append(waits.hear(store.says(next(iter(store.watches))))[0])
    assert heard_ == [[], [Wake(rows[2].id, granted=True, floor=rows[2].revision)]]
