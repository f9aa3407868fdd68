"""A server's clock: what is computed from a reply is never later than the server's own time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockfast.engines.server_clock import LATEST, ServerClock, in_units
from lockfast.port import Ask, Shape

UNITS = 1000
instants = st.floats(0.0, 1e8)
delays = st.floats(0.0, 30.0)


@given(local=instants, ahead=st.floats(0.0, 4e9), delay=delays, later=delays)
def test_a_reply_that_took_long_makes_the_server_look_slow_and_never_fast(
    local: float, ahead: float, delay: float, later: float
) -> None:
    told = int((local + ahead) * UNITS)  # when the server wrote it
    clock = ServerClock(told, local + delay, UNITS)
    really = (local + later + ahead) * UNITS
    assert clock.at(local + later) <= really + 1  # a unit, since floats are rounded
    assert clock.at(local + later) >= really - delay * UNITS - 2


@given(first=delays, second=delays)
def test_a_tombstone_outlives_every_copy_whatever_was_learnt_in_between(
    first: float, second: float
) -> None:
    ask = Ask("0" * 32, Shape("x", 5.0), True, 100.0, b"")  # noqa: FBT003
    sent = [ServerClock(10**9, delay, UNITS).latest(ask) for delay in (first, second)]
    assert ServerClock(10**9, 30.0, UNITS).last(ask) >= max(sent)


@given(local=instants, ahead=st.floats(0.0, 4e9), delay=delays, later=delays)
def test_the_time_in_seconds_is_the_same_time_and_never_later_than_the_servers(
    local: float, ahead: float, delay: float, later: float
) -> None:
    told = int((local + ahead) * UNITS)
    clock = ServerClock(told, local + delay, UNITS)
    instant = local + later
    assert clock.seconds(instant) <= instant + ahead + 1e-5  # floats are rounded
    assert abs(clock.seconds(instant) * UNITS - clock.at(instant)) < 2


def fixed(seconds: float) -> Ask:
    ask = Ask("0" * 32, Shape("x", 5.0), True, 100.0, b"")  # noqa: FBT003
    ask.fixed = seconds
    return ask


@given(seconds=st.floats(0.0, LATEST), delay=delays)
def test_a_fixed_time_is_passed_on_as_it_is(seconds: float, delay: float) -> None:
    ask, clock = fixed(seconds), ServerClock(10**9, delay, UNITS)
    assert clock.latest(ask) == ask.late == int(seconds * UNITS)
    assert clock.last(ask) == ask.late


def test_a_tombstone_outlives_a_copy_that_was_sent_before_the_time_was_fixed() -> None:
    ask, clock = fixed(7.0), ServerClock(10**6, 0.0, UNITS)
    ask.fixed = None
    sent = clock.latest(ask)
    ask.fixed = 7.0
    assert clock.latest(ask) == 7 * UNITS
    assert ask.late == clock.last(ask) == sent


@given(seconds=st.floats())
def test_a_fixed_time_never_needs_more_digits_than_a_request_has(seconds: float) -> None:
    """Redis reads 13 digits, in ms. MariaDB reads 16, in µs."""
    assert 0 <= in_units(seconds, 10**3) < 10**13
    assert 0 <= in_units(seconds, 10**6) < 10**16
