"""A server's clock: what is computed from a reply is never later than the server's own time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockfast.engines.server_clock import ServerClock
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
