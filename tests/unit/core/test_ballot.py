"""The ballot, held against all that a network and its nodes may do: delays, copies, loss, wipes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockfast.core.ballot import GRACE, Ballot, Verdict, quorum

UNDER_WAY = 40  # steps after which an answer counts no more
STEPS = 400


@dataclass
class Node:
    """What a node does, as in the scripts."""

    mark: int | None = 0
    held: int | None = None
    since: int = 0


@dataclass
class Attempt:
    """One proposal."""

    token: int
    began: int
    above: int
    """The highest token that was granted before it began."""
    ballot: Ballot
    open: bool = True


@dataclass
class World:
    """Nodes, proposals, and the messages between them, in no order."""

    chance: random.Random
    size: int = 3
    forgetful: bool = False
    now: int = 0
    nodes: list[Node] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    mail: list[tuple[str, int, int]] = field(default_factory=list)
    granted: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = [Node() for _ in range(self.size)]

    def run(self) -> None:
        for self.now in range(STEPS):
            act = self.chance.choice([self.begin, self.expire, self.fault, *[self.deliver] * 12])
            act()

    def begin(self) -> None:
        """A client with a clock of its own proposes a number."""
        token = self.chance.randint(1, 12) + self.now // 10
        number = len(self.attempts)
        above = max(self.granted, default=0)
        self.attempts.append(Attempt(token, self.now, above, Ballot(self.size)))
        self.mail += [("claim", node, number) for node in range(self.size)]

    def deliver(self) -> None:
        """A message arrives: this one or that, once, twice or never."""
        if not self.mail:
            return
        recent = self.mail[-10:] if self.chance.random() < 0.8 else self.mail
        kind, node, number = self.chance.choice(recent)
        if self.chance.random() < 0.7:
            self.mail.remove((kind, node, number))
        attempt, there = self.attempts[number], self.nodes[node]
        if kind == "free":
            if there.held == number:
                there.held = None
            if there.mark is not None:
                there.mark = max(there.mark, attempt.token)
        elif self.chance.random() < 0.8:  # else the answer is lost
            self.answer(attempt, number, node)
        else:
            self.accepts(number, there)

    def accepts(self, number: int, node: Node) -> bool:
        token = self.attempts[number].token
        if node.mark is None or node.held not in {None, number}:
            return False
        if node.held is None:
            if token <= node.mark:
                return False
            node.mark, node.held = token, number
        return True

    def answer(self, attempt: Attempt, number: int, node: int) -> None:
        there, ballot = self.nodes[node], attempt.ballot
        accepted = self.accepts(number, there)
        if not attempt.open:
            return
        if self.now - attempt.began >= UNDER_WAY:
            self.give_up(attempt, number)
            return
        if accepted:
            ballot.lefts[node] = 1.0
        elif there.mark is None:
            ballot.strangers.add(node)
        elif there.held is None:
            ballot.refuse(node, there.mark)
        else:
            ballot.busy(node, there.mark, str(there.held), 1.0)
        if ballot.verdict is Verdict.WON:
            attempt.open = False
            assert attempt.token not in self.granted, "two have the same token"
            assert attempt.token > attempt.above, "a token went back"
            self.granted.append(attempt.token)
            self.mail += [("free", each, number) for each in range(self.size)]
        elif not ballot.patience:
            self.give_up(attempt, number)

    def give_up(self, attempt: Attempt, number: int) -> None:
        attempt.open = False
        self.mail += [("free", node, number) for node in range(self.size)]

    def expire(self) -> None:
        """A node drops a holder: its ttl is over, by whatever clock."""
        self.chance.choice(self.nodes).held = None

    def fault(self) -> None:
        """A node loses its data, if a majority is left; or one that has joins again."""
        node = self.chance.choice(self.nodes)
        members = [each for each in self.nodes if each.mark is not None]
        if node.mark is None:
            others = [each.mark for each in members if each.mark is not None]
            if len(others) >= quorum(self.size) and self.now - node.since > UNDER_WAY:
                node.mark = max(self.chance.sample(others, quorum(self.size)))
        elif len(members) > quorum(self.size):
            node.held, node.since = None, self.now
            node.mark = 0 if self.forgetful else None


@settings(max_examples=25, deadline=None)
@given(chance=st.randoms(use_true_random=False), size=st.sampled_from([3, 5]))
def test_tokens_are_unique_and_in_order_whatever_happens(chance: random.Random, size: int) -> None:
    World(chance, size).run()


@pytest.mark.parametrize("seed", range(20))
def test_tokens_are_unique_and_in_order_in_long_histories(seed: int) -> None:
    granted = 0
    for turn in range(20):
        world = World(random.Random(seed * 1000 + turn), 3 if turn % 2 else 5)  # noqa: S311  # no secret
        world.run()
        granted += len(world.granted)
    assert granted > 40  # else they would show nothing


def test_a_node_that_lost_its_data_and_goes_on_is_found_out() -> None:
    """Else the tests above would show nothing (trap 48)."""

    def search() -> None:
        for seed in range(100_000):
            World(random.Random(seed), forgetful=True).run()  # noqa: S311  # no secret

    with pytest.raises(AssertionError, match="token"):
        search()


@pytest.mark.parametrize("patient", [True, False])
def test_a_node_must_not_join_while_a_proposal_that_it_forgot_is_under_way(patient: bool) -> None:  # noqa: FBT001  # a parameter
    world = World(random.Random(0))  # noqa: S311  # no secret
    first, second = (Attempt(10, 0, 0, Ballot(3)) for _ in range(2))
    world.attempts += [first, second]
    world.answer(first, 0, 0)
    world.nodes[0] = Node(mark=None if patient else 0)  # wiped; the others know of nothing yet
    world.answer(second, 1, 0)
    world.answer(second, 1, 2)
    if patient:
        world.answer(first, 0, 1)
        assert world.granted == [10]
    else:
        with pytest.raises(AssertionError, match="two have the same token"):
            world.answer(first, 0, 1)


def test_a_majority_is_enough_and_the_lease_is_as_long_as_a_majority_keeps_it() -> None:
    ballot = Ballot(5)
    for node, left in enumerate([9.0, 5.0, 7.0]):
        assert ballot.patience > GRACE
        ballot.lefts[node] = left
    assert (ballot.verdict, ballot.patience, ballot.left) == (Verdict.WON, 0.0, 5.0)
    ballot.lefts[3] = 8.0
    assert ballot.left == 7.0
    assert ballot.loose == {0, 1, 2, 3, 4}  # the fifth has not answered


def test_one_that_cannot_win_waits_a_moment_to_learn_who_has_it() -> None:
    ballot = Ballot(5)
    ballot.lefts[0] = ballot.lefts[1] = 5.0
    ballot.busy(2, 7, "other", 3.0)
    ballot.busy(3, 9, "other", 1.0)
    assert ballot.patience > GRACE
    ballot.busy(4, 8, "third", 2.0)
    assert (ballot.verdict, ballot.patience) == (Verdict.SPLIT, 0.0)
    assert (ballot.highest(99, 999), ballot.leader(), ballot.free_in) == (9, "other", 1.0)
    assert ballot.loose == {0, 1}


@pytest.mark.parametrize(
    ("accepted", "marks", "highest"),
    [
        (4, [900], 0),  # one node alone, and a majority without it
        (2, [900], 900),  # a majority of those that answer needs it
        (0, [7, 8, 900], 900),
        (2, [9000], 0),  # the same, but it is too far ahead for one node to say so
        (0, [7, 8, 9000], 8),
        (1, [9000, 9001], 9000),  # two nodes say so
        (2, [900, 901], 900),  # one node is down, and one of the two is needed
        (0, [7, 8, 9, 900, 901], 9),
        (0, [7, 8, 900, 901, 902], 900),  # a majority has it
        (0, [7, 8, 9], 9),
    ],
)
def test_a_mark_far_ahead_counts_only_if_a_majority_needs_it(
    accepted: int, marks: list[int], highest: int
) -> None:
    ballot = Ballot(5)
    for node in range(accepted):
        ballot.lefts[node] = 1.0
    for node, mark in enumerate(marks, accepted):
        ballot.refuse(node, mark)
    assert ballot.highest(plausible=100, possible=1000) == highest


@pytest.mark.parametrize(
    ("busy", "outbid", "strangers", "failed", "verdict"),
    [
        (3, 0, 0, 0, Verdict.TAKEN),
        (2, 0, 0, 2, Verdict.TAKEN),
        (0, 3, 0, 0, Verdict.OUTBID),
        (1, 2, 0, 0, Verdict.OUTBID),
        (0, 0, 3, 0, Verdict.STRANGERS),
        (0, 0, 0, 3, Verdict.UNREACHABLE),
        (0, 0, 2, 1, Verdict.UNREACHABLE),
        (3, 0, 0, 2, Verdict.TAKEN),
    ],
)
def test_what_the_answers_of_five_nodes_come_to(
    busy: int, outbid: int, strangers: int, failed: int, verdict: Verdict
) -> None:
    ballot, nodes = Ballot(5), iter(range(5))
    for _ in range(busy):
        ballot.busy(next(nodes), 5, "other", 1.0)
    for _ in range(outbid):
        ballot.refuse(next(nodes), 5)
    ballot.strangers |= {next(nodes) for _ in range(strangers)}
    ballot.failed |= {next(nodes) for _ in range(failed)}
    for node in nodes:
        ballot.lefts[node] = 1.0
    assert ballot.verdict is verdict
