"""Which refused subscriptions are logged."""

from __future__ import annotations

import hiredis
import pytest

from lockfast.engines.redis.refusals import AGAIN, Refusals
from lockfast.engines.redis.transport import Address, failure
from lockfast.errors import EngineRefused

HERE = Address("localhost", 6379)
WRONG = "WRONGPASS invalid username-password pair or user is disabled."
NO_CHANNELS = "NOPERM this user has no permissions to access one of the channels"


def refused(reply: str) -> EngineRefused:
    error = failure(hiredis.ReplyError(reply), HERE)
    assert isinstance(error, EngineRefused)
    return error


@pytest.fixture
def refusals() -> Refusals:
    return Refusals(lambda: 100.0)


@pytest.mark.parametrize("reply", [WRONG, "NOAUTH HELLO must be called with the client ..."])
def test_a_password_that_never_worked_is_no_matter_of_the_subscription(
    refusals: Refusals, caplog: pytest.LogCaptureFixture, reply: str
) -> None:
    refusals.note(HERE, "lockfast:1", refused(reply))
    assert caplog.messages == []  # the request of the program raises the same error
    assert refusals.until(HERE) == 100.0 + AGAIN


def test_a_password_that_no_longer_works_is_logged(
    refusals: Refusals, caplog: pytest.LogCaptureFixture
) -> None:
    refusals.accepted(HERE)  # connections that are open still serve requests
    refusals.note(HERE, "lockfast:1", refused(WRONG))
    refusals.note(HERE, "lockfast:1", refused(WRONG))
    (told,) = caplog.messages
    assert "WRONGPASS" in told
    assert "ACL" not in told


def test_a_missing_right_is_logged_once_with_what_to_grant(
    refusals: Refusals, caplog: pytest.LogCaptureFixture
) -> None:
    refusals.note(HERE, "lockfast:1", refused(NO_CHANNELS))
    refusals.note(HERE, "lockfast:1", refused(NO_CHANNELS))
    (told,) = caplog.messages
    assert told.endswith("Allow the channels: ACL SETUSER <user> &lockfast:*")
