"""The checkers themselves: each finds what it is for, and is silent on what is right."""

from __future__ import annotations

import random

import pytest

from tests.robustness import checkers
from tests.robustness.history import Kind, Outcome, Record, dumped, read


def grant(client: str, token: int, began: float, ended: float, **more: object) -> Record:
    said = {"until": ended + 10.0, "id": f"{client}{token}", **more}
    return Record(client, Kind.ACQUIRE, "x", began, ended, Outcome.OK, token=token, **said)  # type: ignore[arg-type]  # by name


def release(client: str, token: int, began: float, **more: object) -> Record:
    said = {"until": began + 10.0, "id": f"{client}{token}", **more}
    return Record(client, Kind.RELEASE, "x", began, began + 0.1, Outcome.OK, **said)  # type: ignore[arg-type]  # by name


def write(
    client: str, token: int, began: float, ended: float, outcome: Outcome = Outcome.OK
) -> Record:
    value = f"{client}{token}@{began}"
    return Record(client, Kind.WRITE, "x", began, ended, outcome, token, f"{client}{token}", value)


FINE = [grant("a", 1, 0, 1), release("a", 1, 2), grant("b", 2, 0, 3), release("b", 2, 4)]


def test_a_history_survives_its_file_but_for_a_torn_line() -> None:
    lines = [dumped(record) + "\n" for record in FINE]
    assert list(read([*lines, lines[0][:20]])) == FINE


@pytest.mark.parametrize("name", ["tokens_unique", "tokens_increase", "capacity", "overlaps"])
def test_what_is_right_is_passed(name: str) -> None:
    assert getattr(checkers, name)(FINE) == []


def test_one_token_for_two_claims_is_found() -> None:
    (wrong,) = checkers.tokens_unique([grant("a", 7, 0, 1), grant("b", 7, 2, 3)])
    assert "token 7" in wrong


def test_a_token_that_goes_back_is_found_and_overlapping_asks_are_not() -> None:
    assert checkers.tokens_increase([grant("a", 7, 0, 1), grant("b", 6, 2, 3)])
    assert not checkers.tokens_increase([grant("a", 7, 0, 3), grant("b", 6, 2, 4)])


def test_two_believers_are_counted() -> None:
    (told,) = checkers.overlaps([grant("a", 1, 0, 1), grant("b", 2, 2, 3)])
    assert "a (token 1) and b (token 2)" in told


def test_a_belief_ends_with_its_validity() -> None:
    assert not checkers.overlaps([grant("a", 1, 0, 1, until=2.0), grant("b", 2, 0, 3)])


def test_too_many_permits_are_found() -> None:
    three = [grant(client, i, 0, i, capacity=2) for i, client in enumerate("abc", 1)]
    assert not checkers.capacity(three[:2])
    assert "a, b, c held 3 of 2" in checkers.capacity(three)[0]


def test_a_stale_write_that_was_applied_is_found() -> None:
    assert checkers.marks_never_fall([(1, "a", "v"), (2, "b", "w"), (1, "a", "u")])
    assert checkers.marks_never_fall([(1, "a", "v"), (1, "b", "w")])
    assert not checkers.marks_never_fall([(1, "a", "v"), (1, "a", "w"), (2, "b", "u")])


def test_a_write_that_was_acknowledged_and_lost_is_found() -> None:
    lost = write("a", 1, 1, 2)
    assert checkers.applied_writes_are_owners([grant("a", 1, 0, 1), lost], [])
    log = [(1, "a1", lost.value)]
    assert not checkers.applied_writes_are_owners([grant("a", 1, 0, 1), lost], log)


def test_no_order_explains_a_stale_write_after_a_newer_one() -> None:
    assert checkers.fenced_register([write("b", 2, 0, 1), write("a", 1, 2, 3)])
    assert not checkers.fenced_register([write("b", 2, 0, 3), write("a", 1, 2, 4)])


def test_a_write_of_unknown_outcome_may_take_effect_later_or_never() -> None:
    unknown = write("b", 2, 0, 1, Outcome.UNKNOWN)
    refused = write("a", 1, 5, 6, Outcome.NO)
    assert not checkers.fenced_register([unknown, write("a", 1, 2, 3), refused])
    assert checkers.fenced_register([write("a", 1, 2, 3), refused])


def test_long_histories_are_searched_quickly() -> None:
    dice = random.Random(7)  # noqa: S311  # no secret
    history = []
    for token in range(1, 1500):
        began = token + dice.uniform(-0.9, 0.0)
        history.append(write("abc"[token % 3], token, began, token + 0.5))
    assert checkers.fenced_register(history) == []
