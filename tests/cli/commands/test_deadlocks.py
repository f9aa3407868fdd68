"""`deadlocks`: circles in words."""

from __future__ import annotations

import pytest

import lockfast
from lockfast.port import Page
from tests.cli.commands.calls import Calls, awaited, crossed


def test_a_circle_is_told_in_words_and_by_the_exit_code(call: Calls) -> None:
    with crossed(call.url):
        said = call("deadlocks")
        (told,) = call("deadlocks", "--json").objects
    assert said.code == 1
    assert said.words.startswith("Deadlock of 2 waiters:")
    assert "waits for 'left', which" in said.words
    assert "waits for 'right', which" in said.words
    assert "(from left to right)" in said.words
    assert sorted(tie["waiting"]["name"] for tie in told["circle"]) == ["left", "right"]
    assert all(tie["blocker"]["state"] == "holds" for tie in told["circle"])


def test_a_wait_without_a_circle_is_none(call: Calls) -> None:
    with awaited(call.url, "x"):
        assert call("deadlocks") == (0, "No deadlock.\n", "")
        assert call("deadlocks", "--json") == (0, "", "")


def test_a_circle_ends_when_one_of_it_is_broken(call: Calls) -> None:
    with crossed(call.url):
        assert call("break", "left", "--reason", "a circle", "--yes").code == 0
        assert call("deadlocks").code == 0


def test_a_circle_that_is_there_in_one_reading_alone_is_none(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with crossed(url), lockfast.connect(url) as looker, lockfast.connect(url) as operator:
        (holder, *_) = looker.inspect("left")
        engine = looker._session.engine
        read = engine.inspect
        readings: list[Page] = []

        async def inspect(names: str, cursor: str | None, *, exact: bool) -> Page:
            if readings and readings[-1].cursor is None:  # the first reading is over
                operator.revoke(holder, "between two readings")
            readings.append(await read(names, cursor, exact=exact))
            return readings[-1]

        monkeypatch.setattr(engine, "inspect", inspect)
        assert looker.deadlocks() == []
        assert sum(page.cursor is None for page in readings) == 2
