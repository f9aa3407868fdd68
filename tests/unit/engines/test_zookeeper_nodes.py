"""ZooKeeper's lists of children: their order, who is granted, and who has to be watched."""

from __future__ import annotations

import random
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.core.queue import Queues
from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.nodes import Line
from lockfast.port import SHARED, Ask, Kind, Shape

Sizes = tuple[int, int]
"""A capacity and a weight."""
OTHER_FORMATS = {
    0: ["1-1", "1-2147483647", "5-5"],
    2: ["1-2_1_0000000001", "1-2_", "5_5-2_1_x_y"],
    30: ["1-30_1_0000000001"],
}


def sizes(capacities: st.SearchStrategy[int]) -> st.SearchStrategy[list[Sizes]]:
    one = capacities.flatmap(lambda most: st.tuples(st.just(most), st.integers(1, most)))
    return st.lists(one, min_size=1, max_size=9)


MIXED = sizes(st.integers(1, 7))
UNIFORM = st.integers(1, 6).flatmap(lambda capacity: sizes(st.just(capacity)))


def child(number: int, sizes: Sizes, kind: Kind = Kind.SEMAPHORE) -> str:
    shape = Shape("x", 30.0, kind, *sizes)
    ask = Ask(f"{number:032x}", shape, queue=True, not_after=9.0, payload=b"")
    return f"{nodes.stem(ask)}{number:010d}"


def children(queue: list[Sizes], kind: Kind = Kind.SEMAPHORE) -> list[str]:
    return [child(number, each, kind) for number, each in enumerate(queue)]


def is_granted(line: Line, waiter: str) -> bool:
    place = line.place(waiter)
    assert place is not None
    return place < line.granted


@given(MIXED | UNIFORM, st.randoms(use_true_random=False))
def test_a_line_grants_as_the_model_does(queue: list[Sizes], dice: random.Random) -> None:
    model = Queues()
    granted = 0
    for number, (capacity, weight) in enumerate(queue):
        what = Shape("x", 30.0, Kind.SEMAPHORE, capacity, weight)
        ask = Ask(f"{number:032x}", what, queue=True, not_after=9.0, payload=b"")
        standing = model.claim(ask, 1.0)
        granted += standing is not None and standing.granted
    listed = children(queue)
    dice.shuffle(listed)  # ZooKeeper lists in any order
    line = Line(listed)
    assert [node.sequence for node in line.nodes] == list(range(len(queue)))
    assert [(node.capacity, node.weight) for node in line.nodes] == queue
    assert line.granted == granted


def test_a_claim_of_another_kind_is_not_granted_beside_a_holder() -> None:
    reader, permit = child(1, (SHARED, 1), Kind.READ_WRITE), child(2, (5, 1))
    assert Line([reader, permit]).granted == 1
    assert Line([permit, child(3, (SHARED, 1), Kind.READ_WRITE)]).granted == 1


@given(MIXED | UNIFORM, st.randoms(use_true_random=False), st.data())
def test_a_waiter_is_woken_by_the_deletion_that_lets_it_in(
    queue: list[Sizes], dice: random.Random, data: st.DataObject
) -> None:
    line = Line(children(queue))
    waiting = [node.child for node in line.nodes[line.granted :]]
    if not waiting:
        return
    waiter = data.draw(st.sampled_from(waiting))
    others = [node.child for node in line.nodes if node.child != waiter]
    dice.shuffle(others)
    watched: set[str] = set()
    stale = True  # whether it was woken, and looks
    for gone in ["", *others]:
        left = Line(node.child for node in line.nodes if node.child != gone)
        assert is_granted(left, waiter) <= (gone in watched)
        if is_granted(left, waiter):
            return
        stale = stale or gone in watched
        if stale:
            place = left.place(waiter)
            assert place is not None
            watched = {node.child for node in left.obstacles(place)}
            assert watched <= {node.child for node in left.nodes[:place]}
            stale = False
        line = left
    raise AssertionError("it was alone, and not granted")


@given(MIXED | UNIFORM)
def test_a_waiter_watches_nothing_that_it_need_not_watch(queue: list[Sizes]) -> None:
    """If only it and what it watches are there, each of them is needed to keep it out, unless they
    keep out one another.
    """
    line = Line(children(queue))
    for place in range(line.granted, len(queue)):
        watched = line.obstacles(place)
        names = {node.child for node in watched}
        mine = line.nodes[place]
        ahead = line.nodes[: place + 1]
        weights = accumulate(node.weight for node in ahead)
        blocked = [
            node for node, weight in zip(ahead, weights, strict=True) if weight > node.capacity
        ]
        assert 1 <= len(watched) <= 2 + min(node.capacity - node.weight for node in blocked)
        for node in watched:
            left = Line([*(names - {node.child}), mine.child])
            others_fit = left.granted >= len(watched) - 1
            assert is_granted(left, mine.child) or not others_fit


@given(st.integers(1, 5), st.integers(0, 9))
def test_in_the_order_of_arrival_no_holder_of_a_permit_wakes_a_waiter_in_vain(
    capacity: int, behind: int
) -> None:
    line = Line(children([(capacity, 1)] * (capacity + behind + 1)))
    waiter = line.nodes[-1].child
    watched = {node.child for node in line.obstacles(len(line.nodes) - 1)}
    while not is_granted(line, waiter):
        gone = line.nodes[0].child
        line = Line(node.child for node in line.nodes[1:])
        assert (gone in watched) is is_granted(line, waiter)


def test_a_waiter_that_fits_watches_the_smaller_one_ahead_and_what_that_one_watches() -> None:
    line = Line(children([(8, 1)] * 4 + [(3, 1), (8, 1), (9, 2)]))
    assert line.granted == 4
    small = line.obstacles(4)
    assert small == [line.nodes[number] for number in (3, 2, 1)]
    for place in (5, 6):
        assert line.obstacles(place) == [line.nodes[4], *small]
    crowd = Line(children([(1, 1)] * 3 + [(3, 1)]))  # it does not fit, and two are enough
    assert crowd.obstacles(3) == [crowd.nodes[2], crowd.nodes[1]]


def test_a_waiter_watches_the_claim_of_another_kind_ahead_of_it() -> None:
    names = [*children([(5, 1)] * 2), child(2, (1, 1), Kind.LOCK), child(3, (5, 1))]
    line = Line(names)
    assert line.granted == 2
    assert line.obstacles(3) == [line.nodes[2]]
    assert line.obstacles(2) == [line.nodes[1]]
    line = Line([*names, child(4, (5, 1))])
    assert line.obstacles(4) == [line.nodes[2]]


def test_a_lock_watches_its_predecessor_and_a_reader_the_last_writer() -> None:
    line = Line(children([(1, 1)] * 5, Kind.LOCK))
    assert line.obstacles(4) == [line.nodes[3]]
    weights = [SHARED, 1, SHARED, 1, 1]
    line = Line(children([(SHARED, weight) for weight in weights], Kind.READ_WRITE))
    assert line.obstacles(4) == [line.nodes[2]]


@pytest.mark.parametrize("number", OTHER_FORMATS)
def test_a_claim_in_another_format_is_seen_and_lets_nobody_in_behind_it(number: int) -> None:
    for middle in OTHER_FORMATS[number]:
        other, last = f"{7:032x}-{middle}-0000000007", f"{7:032x}-{middle}--2147483648"
        line = Line([other, child(8, (5, 1))])
        assert (line.granted, line.other) == (0, number)
        assert line.nodes[0].id == f"{7:032x}"
        assert line.obstacles(1) == [line.nodes[0]]
        assert line.found(f"{7:032x}") == []  # none that we could read, or delete
        line = Line([child(5, (5, 1)), other, child(8, (5, 1))])
        assert (line.granted, line.other) == (1, number)
        assert line.obstacles(2) == [line.nodes[1]]
        assert Line([last, child(5, (5, 1))]).nodes[0].sequence == -(2**31)
    assert Line(children([(5, 1)])).other is None


def test_clients_of_commit_c0ff680_read_a_capacity_that_none_of_their_claims_has() -> None:
    """They take a name apart like this, and leave out a node whose numbers they cannot read."""
    for kind, capacity in [(Kind.LOCK, 1), (Kind.READ_WRITE, SHARED), (Kind.SEMAPHORE, 5)]:
        id_, weight, third, sequence = child(3, (capacity, 1), kind).split("-", 3)
        assert (id_, int(weight), int(sequence)) == (f"{3:032x}", 1, 3)
        assert int(third) > SHARED


def test_a_counter_that_is_worn_out_is_noticed_and_transactions_decide() -> None:
    start = f"{7:032x}-1-1_1_0000000001-"
    names = [f"{start}{n:010d}" for n in (2**31 - 2, 2**31 - 1)]
    assert not Line(names[:1]).worn
    assert Line(names).worn
    repeated, negative = f"{8:032x}{start[32:]}2147483647", f"{9:032x}{start[32:]}-2147483648"
    zxids = {names[1]: 10, negative: 11, repeated: 12}
    assert Line(zxids).worn
    assert [node.child for node in Line(zxids, zxids).nodes] == [names[1], negative, repeated]


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60))
def test_names_come_back_from_their_nodes(name: str) -> None:
    folder = nodes.folder("/root", name)
    child = folder.rpartition("/")[2]
    assert nodes.name_of(child) == name
    assert child.isascii()
    assert child not in {".", ".."}
    assert nodes.parse("somebody else's node") is None
