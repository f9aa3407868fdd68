"""How long a lease is good: the arithmetic of section 3, without a clock."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from lockfast.core.validity import DRIFT, State, Validity
from lockfast.errors import Loss


class Lease(Validity):
    """A validity with a place for its values."""

    def __init__(self) -> None:
        self.until = self.worry = 0.0
        self.limit = math.inf
        self.unsure = False
        self.loss = None


def held(sent: float = 0.0, left: float = 10.0) -> Lease:
    lease = Lease()
    lease.observe(sent, left)
    return lease


def test_the_time_counts_from_before_the_send_and_leaves_room_for_drift() -> None:
    assert held(sent=100.0, left=10.0).until == 100.0 + 10.0 * (1 - DRIFT)


def test_held_then_jeopardy_then_lost() -> None:
    lease = held()
    assert lease.state(4.9) is State.HELD
    assert lease.state(5.0) is State.JEOPARDY
    assert lease.state(9.89) is State.JEOPARDY
    assert lease.state(9.9) is State.LOST


def test_a_renewal_ends_the_jeopardy() -> None:
    lease = held()
    lease.doubt(3.0)
    assert lease.state(3.0) is State.JEOPARDY
    assert lease.extend(4.0, 10.0, now=4.1)
    assert lease.state(4.1) is State.HELD


def test_a_late_ok_revives_nothing() -> None:
    lease = held()
    assert not lease.extend(9.8, 10.0, now=9.95)
    assert lease.state(9.95) is State.LOST
    assert lease.state(0.0) is State.LOST


def test_a_loss_that_was_told_is_for_ever() -> None:
    lease = held()
    assert lease.state(50.0) is State.LOST
    lease.observe(49.0, 1000.0)
    assert lease.state(50.0) is State.LOST


def test_the_reason_tells_paused_from_cut_off() -> None:
    paused, cut_off = held(), held()
    cut_off.doubt(4.0)
    assert paused.expired(99.0)
    assert cut_off.expired(99.0)
    assert paused.loss is Loss.EXPIRED
    assert cut_off.loss is Loss.UNREACHABLE


def test_at_most_is_the_reason_if_it_came_before_the_end() -> None:
    limited, paused = held(), held()
    limited.limit, paused.limit = 4.0, 9.91
    assert limited.state(3.9) is State.HELD
    assert limited.state(4.0) is State.JEOPARDY
    assert limited.expired(9.9)
    assert limited.loss is Loss.AT_MOST
    assert paused.expired(99.0)  # it could have been renewed once more
    assert paused.loss is Loss.EXPIRED


def test_the_first_reason_stands() -> None:
    lease = held()
    lease.lose(Loss.FENCED)
    lease.lose(Loss.GONE)
    assert lease.loss is Loss.FENCED


times = st.floats(0, 1000)


@given(st.lists(st.tuples(times, times)))
def test_the_deadline_only_grows(replies: list[tuple[float, float]]) -> None:
    lease = Lease()
    highest = 0.0
    for sent, left in replies:
        lease.observe(sent, left)
        assert lease.until >= highest
        highest = lease.until


@given(st.lists(st.tuples(times, times, st.floats(0, 100))), times)
def test_it_is_never_good_for_longer_than_an_engine_said(
    replies: list[tuple[float, float, float]], now: float
) -> None:
    """The engine's own deadline is at least send + left of each reply: stay inside of one."""
    lease = Lease()
    lease.observe(0.0, 10.0)
    known = [10.0]
    for sent, left, delay in replies:
        if lease.extend(sent, left, sent + delay):
            known.append(sent + left)
    if lease.state(now) in (State.HELD, State.JEOPARDY):
        assert now < max(known)
