"""Histories against objects: the search finds an order, or that there is none."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.robustness import checkers
from tests.robustness.checkers.search import Operation, unexplained
from tests.robustness.history import Outcome
from tests.robustness.test_checkers import fault, grant, held, lost, release, said, write

# --- the fenced register ------------------------------------------------------------------------


def test_a_stale_write_that_was_applied_is_found() -> None:
    def log(*entries: tuple[int, str]) -> list[checkers.Violation]:
        return checkers.marks_never_fall({"x": [(*entry, "v", "") for entry in entries]})

    assert "token 1 was applied after 2" in said(log((1, "a"), (2, "b"), (1, "a")))
    assert "two claims wrote with token 1" in said(log((1, "a"), (1, "b")))
    assert not log((1, "a"), (1, "a"), (2, "b"))


def test_what_the_resource_applied_is_what_was_asked_for() -> None:
    wrote = write("a", 1, 1, 2)
    history = [grant("a", 1, 0, 1), wrote]
    entry = (1, "a1", wrote.value, "")

    def found(*log: tuple[int, str, str, str]) -> str:
        return said(checkers.applied_writes_are_owners(history, {"x": log}))

    assert not checkers.applied_writes_are_owners(history, {"x": [entry]})
    assert "was acknowledged and is not there" in found()
    assert "was applied 2 times" in found(entry, entry)
    assert "came with a's token 1" in found(entry, (1, "b2", "other", ""))
    history = [grant("a", 1, 0, 1), replace(wrote, outcome=Outcome.NO)]
    assert "was refused and yet applied" in found(entry)
    history = [grant("a", 1, 0, 1), replace(wrote, client="b")]
    assert "b wrote" in found(entry)
    history = [grant("a", 1, 0, 1), wrote]
    assert "was shown 1, applied with 2" in found((2, "a2", wrote.value, ""))


def test_a_lost_update_is_found() -> None:
    log = {"x": [(1, "a", "v", ""), (2, "b", "w", "")]}
    only = checkers.Promises(frozenset({"lost_updates"}))
    assert "overwrote 'v'" in said(checkers.check([], log, only))
    assert not checkers.check([], {"x": [(1, "a", "v", ""), (2, "b", "w", "v")]}, only)


def test_no_order_explains_a_stale_write_after_a_newer_one() -> None:
    assert checkers.fenced_register([write("b", 2, 0, 1), write("a", 1, 2, 3)])
    assert not checkers.fenced_register([write("b", 2, 0, 3), write("a", 1, 2, 4)])


def test_no_order_explains_two_claims_with_one_token() -> None:
    assert checkers.fenced_register([write("b", 2, 0, 1), write("a", 2, 2, 3)])


def test_a_write_of_unknown_outcome_may_take_effect_later_or_never() -> None:
    unknown = write("b", 2, 0, 1, Outcome.UNKNOWN)
    refused = write("a", 1, 5, 6, Outcome.NO)
    assert not checkers.fenced_register([unknown, write("a", 1, 2, 3), refused])
    assert checkers.fenced_register([write("a", 1, 2, 3), refused])


def test_a_write_that_a_killed_client_never_told_of_explains_a_refusal() -> None:
    history = [write("a", 1, 2, 3), write("a", 1, 5, 6, Outcome.NO)]
    assert not checkers.fenced_register(history, {"x": [(2, "b2", "untold", "")]})


# --- the lock -----------------------------------------------------------------------------------


def test_grants_one_after_another_are_explained_and_two_at_once_are_not() -> None:
    assert not checkers.lock_object([*held("a", 1, 0, 5), *held("b", 2, 5.05, 9)])
    assert "b was granted 2" in said(
        checkers.lock_object([*held("a", 1, 0, 5), *held("b", 2, 4, 9)])
    )


def test_a_grant_may_come_while_the_release_is_under_way_and_not_before() -> None:
    taken = grant("a", 1, 0, 1)
    slow = replace(release(taken, 5), ended=8)
    assert not checkers.lock_object([taken, slow, grant("b", 2, 2, 6)])
    assert checkers.lock_object([taken, slow, grant("b", 2, 2, 4)])


def test_a_release_of_unknown_outcome_may_have_made_room() -> None:
    taken = grant("a", 1, 0, 1)
    doubtful = release(taken, 5, Outcome.UNKNOWN)
    assert not checkers.lock_object([taken, doubtful, grant("b", 2, 2, 6)])
    assert checkers.lock_object([taken, doubtful, grant("b", 2, 2, 4)])


def test_a_holder_that_was_killed_makes_room_when_its_time_is_over() -> None:
    assert not checkers.lock_object([grant("a", 1, 0, 1, until=5.0), grant("b", 2, 2, 6)])
    assert checkers.lock_object([grant("a", 1, 0, 1, until=5.0), grant("b", 2, 2, 4)])


def test_a_loss_that_came_early_has_made_room_at_some_time() -> None:
    taken = grant("a", 1, 0, 1)
    assert not checkers.lock_object([taken, grant("b", 2, 2, 4), lost(taken, 5)])


def test_no_order_explains_a_lower_ticket_after_a_higher_one() -> None:
    assert checkers.lock_object([*held("a", 2, 0, 1), grant("b", 1, 2, 3)])


def test_what_lived_through_lost_data_is_left_out_and_the_rest_is_not() -> None:
    twice = [*held("a", 1, 0, 5), *held("b", 2, 4, 9)]
    assert not checkers.lock_object([*twice, fault("restart-empty", 3, 3.5)])
    assert checkers.lock_object([*twice, fault("restart-empty", 20, 21)])


# --- the search ---------------------------------------------------------------------------------


class Step(Operation[tuple[int, ...]]):
    """Says that it came after exactly `before` others; or looks, and changes nothing."""

    def __init__(self, began: int, ended: float, before: int, *, looks: bool) -> None:
        super().__init__(began, ended, "")
        self.before = before
        self.looks = looks

    def after(self, state: tuple[int, ...]) -> tuple[int, ...] | None:
        if state[0] != self.before:
            return None
        return state if self.looks else (state[0] + 1,)

    def doomed(self, state: tuple[int, ...]) -> bool:
        return state[0] > self.before


def by_trying_all(steps: list[Step]) -> bool:
    """The definition: some of the endless, all others, in some order that respects time."""
    endless = [step for step in steps if step.ended == float("inf")]
    certain = [step for step in steps if step.ended < float("inf")]
    for count in range(len(endless) + 1):
        for some in itertools.combinations(endless, count):
            for order in itertools.permutations([*certain, *some]):
                if any(
                    later.ended < earlier.began
                    for earlier, later in itertools.combinations(order, 2)
                ):
                    continue
                state: tuple[int, ...] | None = (0,)
                for step in order:
                    state = None if state is None else step.after(state)
                if state is not None:
                    return True
    return False


STEPS = st.builds(
    lambda began, length, before, looks: Step(
        began, float("inf") if length is None else began + length, before, looks=looks
    ),
    st.integers(0, 6),
    st.none() | st.integers(0, 5),
    st.integers(0, 3),
    st.booleans(),
)


@given(st.lists(STEPS, max_size=5))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is slow
def test_the_search_agrees_with_trying_all_orders(steps: list[Step]) -> None:
    assert (unexplained((0,), steps) is None) == by_trying_all(steps)
