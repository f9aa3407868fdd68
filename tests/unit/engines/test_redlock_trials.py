"""What a Redlock engine remembers of claims, and when it believes the client instead."""

from __future__ import annotations

from typing import Any

import pytest

from lockfast.engines.redlock import trials
from lockfast.engines.redlock.trials import MANY, Trial, Trials
from lockfast.port import Ask, Shape

TTL = 20.0


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def asked(number: int = 1, *, ticket: int = 0, granted: bool = False, epoch: int = 0) -> Ask:
    ask = Ask(f"{number:032x}", Shape("x", TTL), queue=True, not_after=110.0, payload=b"")
    ask.ticket, ask.granted, ask.epoch = ticket, granted, epoch
    return ask


def test_nothing_is_known_of_a_claim_that_nobody_has_read() -> None:
    assert Trials(Time()).get(asked()) is None


def test_what_the_client_has_read_is_known_at_once() -> None:
    holder = Trials(Time()).get(asked(ticket=7, granted=True))
    assert holder is not None
    assert (holder.held, holder.token) == (True, 7)
    waiter = Trials(Time()).get(asked(ticket=7))
    assert waiter is not None
    assert (waiter.held, waiter.waiting, waiter.since) == (False, True, 7)


def test_a_newer_connection_of_the_client_counts_more_than_what_was_remembered() -> None:
    known = Trials(Time())
    old = known.of(asked(epoch=1))
    old.propose(5)
    old.held = True
    waiter = known.get(asked(ticket=3, epoch=2))
    assert waiter is not None
    assert (waiter.held, waiter.waiting) == (False, True)
    assert known.get(asked(ticket=3, epoch=1)) is waiter


def test_a_resigned_claim_stays_dead_for_newer_connections_too() -> None:
    known = Trials(Time())
    known.entomb(asked(epoch=1))
    assert known.of(asked(epoch=2)).dead


def test_old_trials_are_forgotten_and_those_that_are_asked_for_are_not() -> None:
    time = Time()
    known = Trials(time)
    for number in range(MANY):
        known.of(asked(number)).since = 1
    time.now += TTL - 1.0
    known.get(asked(5))
    time.now += 2.0
    known.of(asked(MANY))
    assert sorted(known._trials) == [asked(5).id, asked(MANY).id]


def test_there_is_a_bound_whatever_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "MOST", 2 * MANY)
    known = Trials(Time())
    for number in range(5 * MANY):
        known.of(asked(number))
    assert len(known._trials) <= 2 * MANY


def test_not_all_trials_are_looked_at_for_each_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted(dict[str, Trial]):
        looks = 0

        def items(self) -> Any:  # noqa: ANN401  # as dict.items
            Counted.looks += 1
            return super().items()

    monkeypatch.setattr(trials, "MOST", 2 * MANY)
    known = Trials(Time())
    known._trials = Counted()
    for number in range(10 * MANY):
        known.of(asked(number))
    assert Counted.looks < 50


def test_the_last_withdrawn_numbers_are_remembered_and_adopted_ones_are_not() -> None:
    trial = Trials(Time()).of(asked())
    trial.propose(5)
    trial.propose(6)
    trial.propose(9, adopted=True)
    trial.propose(10)
    assert list(trial.past) == [6, 5]
    assert trial.since == 5
