"""`deadlocks`: circles in words."""

from __future__ import annotations

from tests.console.calls import Calls, awaited, crossed


def test_a_circle_is_told_in_words_and_by_the_exit_code(call: Calls) -> None:
    with crossed(call.url):
        said = call("deadlocks")
        (told,) = call("deadlocks", "--json").objects
    assert said.code == 1
    assert said.words.startswith("A circle of 2:")
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
