"""Replies of Redis: times and kinds that cannot be, and the errors about formats."""

from __future__ import annotations

import hiredis
import pytest

from lockfast.engines.redis import replies
from lockfast.engines.redis.transport import END, UNITS
from lockfast.engines.server_clock import ServerClock
from lockfast.errors import KindMismatch
from lockfast.port import LONGEST_WAIT, Ask, Kind, Shape

FIRST_WRONG = END * UNITS


def claim() -> Ask:
    shape = Shape("x", LONGEST_WAIT)
    return Ask("0" * 32, shape, queue=True, not_after=LONGEST_WAIT, payload=b"")


@pytest.mark.parametrize("time", [FIRST_WRONG, 10**13, 2**53 - 1])
def test_a_time_that_a_claim_cannot_carry_is_malformed(time: int) -> None:
    """A claim states the length of its time, so Redis took a longer one for another command."""
    with pytest.raises(replies.Malformed):
        replies.renewed([None, time], 1)
    with pytest.raises(replies.Malformed):
        replies.refusal([b"dead", time], claim())


def test_a_claim_can_carry_the_latest_time_of_a_server() -> None:
    ask = claim()
    _, told = replies.renewed([None, FIRST_WRONG - 1], 1)
    assert replies.refusal([b"dead", told], ask) == told
    late = ServerClock(told, 0.0, UNITS).latest(ask)
    assert len(b"%013d" % late) == 13


def test_a_refusal_names_both_kinds() -> None:
    with pytest.raises(KindMismatch, match=r"as a semaphore, .* requested as a lock"):
        replies.refusal([b"kind", int(Kind.SEMAPHORE)], claim())


@pytest.mark.parametrize("kind", [0, 4, FIRST_WRONG, b"", None, b"lock"])
def test_a_kind_that_does_not_exist_is_malformed(kind: object) -> None:
    with pytest.raises(replies.Malformed):
        replies.refusal([b"kind", kind], claim())


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("LOCKFAST format 2", 2),
        ("ERR LOCKFAST format 0 script: f_1, on @user_script:99.", 0),  # of `error` in Redis 7
        ("ERR Error running script (call to f_1): @user_script:99: LOCKFAST format 12", 12),  # 6.2
    ],
)
def test_the_error_for_another_format_names_it_however_redis_wraps_it(
    text: str, stored: int
) -> None:
    error = replies.other_format(hiredis.ReplyError(text), "x")
    assert error is not None
    assert f"'x' is stored in format {stored}," in str(error)


@pytest.mark.parametrize("text", ["LOCKFAST the mark is not one of ours", "NOPERM no format 2"])
def test_another_error_is_not_about_a_format(text: str) -> None:
    assert replies.other_format(hiredis.ReplyError(text), "x") is None
