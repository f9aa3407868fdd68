"""Replies of Redis with a time that no server can have."""

from __future__ import annotations

import pytest

from lockfast.engines.redis import messages
from lockfast.engines.redis.transport import END, UNITS
from lockfast.engines.server_clock import ServerClock
from lockfast.errors import KindMismatch
from lockfast.port import LONGEST_WAIT, Ask, Shape

FIRST_WRONG = END * UNITS


def claim() -> Ask:
    shape = Shape("x", LONGEST_WAIT, 1, 1)
    return Ask("0" * 32, shape, queue=True, not_after=LONGEST_WAIT, payload=b"")


@pytest.mark.parametrize("time", [FIRST_WRONG, 10**13, 2**53 - 1])
def test_a_time_that_a_claim_cannot_carry_is_malformed(time: int) -> None:
    """A claim states the length of its time, so Redis took a longer one for another command."""
    with pytest.raises(messages.Malformed):
        messages.renewed([None, time], 1)
    with pytest.raises(messages.Malformed):
        messages.refusal([b"dead", time], claim())


def test_a_claim_can_carry_the_latest_time_of_a_server() -> None:
    ask = claim()
    _, told = messages.renewed([None, FIRST_WRONG - 1], 1)
    assert messages.refusal([b"dead", told], ask) == told
    late = ServerClock(told, 0.0, UNITS).latest(ask)
    assert len(b"%013d" % late) == 13


def test_a_capacity_is_no_time() -> None:
    with pytest.raises(KindMismatch):
        messages.refusal([b"capacity", FIRST_WRONG], claim())
