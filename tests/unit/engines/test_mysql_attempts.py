"""Logins to a MySQL server that a call could not finish: which of them the next call continues."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.engines.mysql.attempts import STALLED, Attempt, Attempts
from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.url import Address
from lockfast.engines.sql.steps import READ, WRITE, Steps
from lockfast.url import parse

ADDRESS = Address.of(parse("mysql://u@h/x"))
(PLACE,) = ADDRESS.places


class Watch:
    """A clock that a test moves."""

    time = 100.0

    def __call__(self) -> float:
        return self.time


def steps() -> Steps:
    yield WRITE
    yield READ


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def attempt(watch: Watch) -> Iterator[Attempt]:
    link = Link(ADDRESS, PLACE, "127.0.0.1")
    link.dialed = True
    yield Attempt(link, steps(), watch)
    link.close()


def closed(attempt: Attempt) -> bool:
    return attempt.link.fileno() == -1


def test_the_next_call_continues_where_the_last_one_was_late(attempt: Attempt) -> None:
    attempts = Attempts()
    attempt.step()
    attempts.keep(attempt)
    assert attempts.take(PLACE, "127.0.0.2") is None
    assert attempts.take(PLACE, "127.0.0.1") is attempt
    assert attempts.take(PLACE, "127.0.0.1") is None  # one call only
    assert attempt.events == WRITE
    attempt.step()
    assert (attempt.events, attempt.done) == (READ, False)
    attempt.step()
    assert attempt.done


def test_a_server_that_has_not_accepted_the_connection_is_called_anew(attempt: Attempt) -> None:
    """TCP would wait for seconds before it tries again, when a broken network is whole."""
    attempts = Attempts()
    attempt.link.dialed = False
    attempts.keep(attempt)
    assert closed(attempt)
    assert attempts.take(PLACE, "127.0.0.1") is None


def test_a_login_without_progress_is_given_up(attempt: Attempt, watch: Watch) -> None:
    attempts = Attempts()
    watch.time += STALLED - 0.01
    attempts.keep(attempt)
    watch.time += 0.02
    assert attempts.take(PLACE, "127.0.0.1") is None
    assert closed(attempt)


def test_a_login_that_has_ended_is_not_continued(attempt: Attempt) -> None:
    """Its caller was cancelled behind the last step, or the server is read-only."""
    attempts = Attempts()
    for _ in range(3):
        attempt.step()
    attempts.keep(attempt)
    assert closed(attempt)
    assert attempts.take(PLACE, "127.0.0.1") is None


def test_a_login_that_failed_is_not_continued(watch: Watch) -> None:
    """A step that has raised an error, or that Ctrl-C broke off, would look like the last one."""

    def broken() -> Steps:
        yield WRITE
        raise KeyboardInterrupt

    attempts, link = Attempts(), Link(ADDRESS, PLACE, "127.0.0.1")
    link.dialed = True
    attempt = Attempt(link, broken(), watch)
    attempt.step()
    with pytest.raises(KeyboardInterrupt):
        attempt.step()
    attempts.keep(attempt)
    assert closed(attempt)
    assert attempts.take(PLACE, "127.0.0.1") is None


def test_progress_gives_a_login_more_time(attempt: Attempt, watch: Watch) -> None:
    attempts = Attempts()
    watch.time += STALLED - 0.01
    attempt.step()
    watch.time += STALLED - 0.01
    attempts.keep(attempt)
    assert attempts.take(PLACE, "127.0.0.1") is attempt


def test_all_of_them_are_forgotten_together(attempt: Attempt) -> None:
    attempts = Attempts()
    attempts.keep(attempt)
    assert attempts.emptied() == [attempt.link]
    assert attempts.emptied() == []
