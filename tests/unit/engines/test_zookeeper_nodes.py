"""ZooKeeper's lists of children: their order, who is granted, and who has to be watched."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from lockfast.core.queue import Queues
from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.nodes import Line
from lockfast.port import Ask, Shape

SHAPES = st.integers(1, 6).flatmap(
    lambda capacity: st.tuples(
        st.just(capacity), st.lists(st.integers(1, capacity), min_size=1, max_size=9)
    )
)


def children(capacity: int, weights: list[int]) -> list[str]:
    return [f"{n:032x}-{weight}-{capacity}-{n:010d}" for n, weight in enumerate(weights)]


@given(SHAPES, st.randoms(use_true_random=False))
def test_a_line_grants_as_the_model_does(shape: tuple[int, list[int]], dice: random.Random) -> None:
    capacity, weights = shape
    model = Queues()
    granted = 0
    for number, weight in enumerate(weights):
        what = Shape("x", 30.0, capacity, weight)
        standing = model.claim(Ask(f"{number:032x}", what, True, 9.0, b""), 1.0)  # noqa: FBT003  # by position, as the port has it
        granted += standing is not None and standing.granted
    listed = children(capacity, weights)
    dice.shuffle(listed)  # ZooKeeper lists in any order
    line = Line(listed)
    assert [node.sequence for node in line.nodes] == list(range(len(weights)))
    assert line.granted == granted


def test_a_claim_of_another_capacity_is_not_granted_beside_a_holder() -> None:
    lock, permit = children(1, [1])[0], children(5, [1, 1])[1]
    assert Line([lock, permit]).granted == 1


@given(SHAPES, st.data())
def test_nobody_is_let_in_while_all_that_it_watches_are_there(
    shape: tuple[int, list[int]], data: st.DataObject
) -> None:
    capacity, weights = shape
    line = Line(children(capacity, weights))
    for place in range(line.granted, len(weights)):
        watched = set(line.obstacles(place))
        others = [node for node in line.nodes[:place] if node not in watched]
        gone = data.draw(st.sets(st.sampled_from(others)) if others else st.just(set()))
        left = Line(node.child for node in line.nodes if node not in gone)
        found = left.place(line.nodes[place].child)
        assert found is not None
        assert found >= left.granted


def test_a_lock_watches_its_predecessor_and_a_reader_the_last_writer() -> None:
    line = Line(children(1, [1] * 5))
    assert line.obstacles(4) == [line.nodes[3]]
    everything = 2**31 - 1
    line = Line(children(everything, [everything, 1, everything, 1, 1]))
    assert line.obstacles(4) == [line.nodes[2]]


def test_a_counter_that_is_worn_out_is_noticed_and_transactions_decide() -> None:
    names = [f"{n:032x}-1-1-{n:010d}" for n in (2**31 - 2, 2**31 - 1)]
    assert not Line(names[:1]).worn
    assert Line(names).worn
    repeated, negative = f"{7:032x}-1-1-2147483647", f"{8:032x}-1-1--2147483648"
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
