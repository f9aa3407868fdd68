"""Plays: what a model does is passed by every checker, and what is planted in it is found."""

from __future__ import annotations

import gc
import itertools
import random
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.robustness.checkers import Promises, check
from tests.robustness.checkers.belief import beliefs
from tests.robustness.checkers.hold import lock_object
from tests.robustness.checkers.linear import fenced_register
from tests.robustness.history import Kind, Outcome, Record
from tests.robustness.play import LATE, TTL, Play

BOUND = TTL + 3 * LATE
Plant = Callable[[Play, random.Random], str]
SEEDS = st.integers(0, 10_000)
BUSY = [HealthCheck.too_slow]  # a busy machine is


def some(play: Play, dice: random.Random, kind: Kind, outcome: Outcome) -> int:
    """Choose a record, by its place."""
    places = [
        i
        for i, record in enumerate(play.history)
        if record.kind is kind and record.outcome is outcome and record.fenced
    ]
    assume(places)
    return dice.choice(places)


def change(play: Play, place: int, **what: object) -> None:
    play.history[place] = replace(play.history[place], **what)  # type: ignore[arg-type]  # by name


def one_token_twice(play: Play, dice: random.Random) -> str:
    place = some(play, dice, Kind.ACQUIRE, Outcome.OK)
    record = play.history[place]
    others = [r for r in play.history if r.kind is Kind.ACQUIRE and r.name == record.name]
    other = dice.choice(others)
    assume(other.id != record.id)
    change(play, place, token=other.token)
    return "tokens_unique"


def a_token_that_goes_back(play: Play, dice: random.Random) -> str:
    place = some(play, dice, Kind.ACQUIRE, Outcome.OK)
    record = play.history[place]
    assume(any(r.ended < record.began for r in _grants(play, record.name)))
    change(play, place, token=1)
    return "tokens_increase"


def a_belief_too_long(play: Play, dice: random.Random) -> str:
    held = [b for b in beliefs(play.history)["register:0"] if b.how is None]
    assume(held)
    belief = dice.choice(held)
    later = [r for r in _grants(play, "register:0") if r.ended > belief.began]
    assume(later)
    following = min(later, key=lambda record: record.ended)
    (place,) = [
        i for i, r in enumerate(play.history) if r.id == belief.id and r.kind is Kind.ACQUIRE
    ]
    change(play, place, until=following.ended + 0.001)
    return "within_lease"


def a_writer_beside_others(play: Play, dice: random.Random) -> str:
    held = beliefs(play.history)["rwlock:0"]
    beside = [
        (a, b)
        for a, b in itertools.pairwise(held)
        if a.weight == b.weight == 1 and b.began < a.until and b.until > b.began
    ]
    assume(beside)
    _, second = dice.choice(beside)
    for i, record in enumerate(play.history):
        if record.id == second.id:
            change(play, i, weight=record.capacity)
    return "capacity"


def a_refusal_without_a_reason(play: Play, dice: random.Random) -> str:
    first = min(
        (i for i, r in enumerate(play.history) if r.kind is Kind.WRITE and r.fenced), default=-1
    )
    assume(first >= 0)
    del dice
    change(play, first, outcome=Outcome.NO)
    earlier = [
        r
        for r in play.history
        if r.kind is Kind.WRITE
        and r.name == play.history[first].name
        and r.began < play.history[first].ended
    ]
    assume(len([r for r in earlier if r.fenced]) == 1)
    return "fenced_register"


def a_write_that_is_gone(play: Play, dice: random.Random) -> str:
    record = play.history[some(play, dice, Kind.WRITE, Outcome.OK)]
    log = play.log[record.name]
    log[:] = [entry for entry in log if entry[2] != record.value]
    return "applied_writes_are_owners"


def a_stale_write_that_is_applied(play: Play, dice: random.Random) -> str:
    record = play.history[some(play, dice, Kind.WRITE, Outcome.NO)]
    log = play.log[record.name]
    log.append((record.token, record.id, record.value, log[-1][2]))
    return "marks_never_fall"


def a_mark_that_let_a_stale_one_in(play: Play, dice: random.Random) -> str:
    place = some(play, dice, Kind.WRITE, Outcome.NO)
    record = play.history[place]
    # Only certain, earlier ones prove it.
    assume(
        any(
            r.kind is Kind.WRITE
            and r.fenced
            and r.outcome is Outcome.OK
            and r.name == record.name
            and r.token > record.token
            and r.ended < record.began
            for r in play.history
        )
    )
    change(play, place, outcome=Outcome.OK)
    return "fenced_register"


PLANTS: list[Plant] = [
    one_token_twice,
    a_token_that_goes_back,
    a_belief_too_long,
    a_writer_beside_others,
    a_refusal_without_a_reason,
    a_write_that_is_gone,
    a_stale_write_that_is_applied,
    a_mark_that_let_a_stale_one_in,
]


def _grants(play: Play, name: str) -> list[Record]:
    return [
        r
        for r in play.history
        if r.kind is Kind.ACQUIRE and r.outcome is Outcome.OK and r.name == name
    ]


@given(SEEDS, st.integers(1, 6))
@settings(max_examples=40, deadline=None, suppress_health_check=BUSY)
def test_what_a_model_does_is_passed(seed: int, clients: int) -> None:
    play = Play(seed, clients, pauses=0.1, deaths=0.1, doubts=0.1).run(80)
    assert check(play.history, play.log, Promises(bound=BOUND)) == []


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
@given(SEEDS)
@settings(max_examples=15, deadline=None, suppress_health_check=BUSY)
def test_what_is_planted_is_found(plant: Plant, seed: int) -> None:
    play = Play(seed, pauses=0.1, deaths=0.1, doubts=0.1).run(60)
    found = plant(play, random.Random(seed))  # noqa: S311  # no secret
    assert found in {each.checker for each in check(play.history, play.log, Promises())}


def test_the_twin_of_a_play_is_written_by_the_stale() -> None:
    play = Play(3, pauses=0.2).run(200)
    tokens = [token for token, *_ in play.twin["register:0"]]
    assert tokens != sorted(tokens)
    assert [token for token, *_ in play.log["register:0"]] == sorted(
        token for token, *_ in play.log["register:0"]
    )


def test_long_histories_are_searched_in_time() -> None:
    """20,000 operations take about a second. Twice as many take twice as long, not four times."""

    def seconds(acquisitions: int) -> float:
        play = Play(1, clients=12).run(acquisitions)
        gc.collect()
        began = time.process_time()
        assert fenced_register(play.history, play.log) == []
        assert lock_object(play.history) == []
        return time.process_time() - began

    assert seconds(6000) < 12 * seconds(1500)
