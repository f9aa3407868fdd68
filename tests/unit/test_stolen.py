"""What is recorded of a failed test: its name, and the share of the processors that was stolen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import stolen


def test_failures_are_added_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stolen, "FAILURES", tmp_path / "build" / "failures.txt")
    stolen.record("tests/a.py::test_one", 0.6)
    stolen.record("tests/a.py::test_two", 0.0)
    assert stolen.FAILURES.read_text("utf-8").splitlines() == [
        "tests/a.py::test_one (60% stolen)",
        "tests/a.py::test_two (0% stolen)",
    ]


def test_the_share_is_what_was_stolen_of_the_time_of_all_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, taken = [100.0], [7.0]
    monkeypatch.setattr("tests.stolen.time.monotonic", lambda: now[0])
    monkeypatch.setattr(stolen, "seconds", lambda: taken[0])
    monkeypatch.setattr("tests.stolen.os.cpu_count", lambda: 2)
    watch = stolen.Watch()
    now[0], taken[0] = 110.0, 12.0
    assert watch.share() == pytest.approx(0.25)
