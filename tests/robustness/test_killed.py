"""Processes that are killed at any moment: see `tests.robustness.killed`. CI strikes for 8 s."""

from __future__ import annotations

import pytest

from tests.robustness.killed import TTL, Line, judged, run


@pytest.mark.timeout(120)
def test_whoever_is_killed_leaves_one_holder_at_a_time_and_nobody_waits_for_long() -> None:
    said: list[str] = []
    assert run(8.0, 1, said.append) == 0, said


def held(pid: int, token: int, began: float, ended: float) -> list[Line]:
    return [
        Line(began - 0.1, pid, "asks"),
        Line(began, pid, "holds", token),
        Line(ended, pid, "leaves", token),
    ]


def test_the_judge_accepts_holds_one_after_the_other() -> None:
    killed = [Line(3.0, 3, "asks"), Line(3.1, 3, "holds", 7), Line(3.2, 3, "killed")]
    assert judged([*held(1, 5, 1.0, 1.5), *held(2, 6, 1.6, 2.0), *killed]) == []


def test_the_judge_finds_two_holders_at_once() -> None:
    (said,) = judged(sorted([*held(1, 5, 1.0, 2.0), *held(2, 6, 1.5, 2.5)]))
    assert "while 1 did" in said


def test_the_judge_finds_a_holder_that_was_killed_too_late() -> None:
    first = [Line(0.9, 1, "asks"), Line(1.0, 1, "holds", 5), Line(2.0, 1, "killed")]
    (said,) = judged(sorted([*first, *held(2, 6, 1.5, 1.6)]))
    assert "while 1 did" in said


def test_the_judge_finds_tokens_that_go_back() -> None:
    (said,) = judged([*held(1, 6, 1.0, 1.5), *held(2, 5, 1.6, 2.0)])
    assert said == "token 5 of 2 after 6 of 1"


def test_the_judge_finds_a_wait_that_is_too_long() -> None:
    lines = held(1, 5, 10.0, 10.5)
    (said,) = judged([lines[0]._replace(at=6.9), *lines[1:]])
    assert said == f"a wait of {TTL + 2.1:.2f} s"
