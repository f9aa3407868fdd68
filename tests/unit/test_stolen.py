"""Which failed tests are run again: those that failed while the processors were stolen."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests import stolen

FAILED = "tests/a.py::test_of_time"


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stolen, "FAILURES", tmp_path / "failures.jsonl")
    monkeypatch.setattr(stolen, "TRIES", tmp_path / "second-tries.txt")
    monkeypatch.setattr(stolen, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(stolen, "wait_quiet", lambda: 0.0)
    last = tmp_path / "cache" / "v" / "cache" / "lastfailed"
    last.parent.mkdir(parents=True)
    last.write_text(json.dumps({FAILED: True}), encoding="utf-8")


def tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, *options: str) -> int:
    """Run what fails each time, with the same share stolen; return how often it was run."""
    stolen.record(FAILED, share)
    runs = tmp_path / "runs"
    again = f"open({str(runs)!r}, 'a').write('x'); raise SystemExit(1)"
    argv = ["stolen", *options, sys.executable, "-c", again]
    monkeypatch.setattr(sys, "argv", argv)
    assert stolen.main() == 1
    return len(runs.read_text()) if runs.exists() else 0


def test_a_failure_on_a_quiet_machine_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tries(tmp_path, monkeypatch, 0.02) == 0


def test_in_a_crowd_it_has_a_second_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tries(tmp_path, monkeypatch, 0.02, "--crowd") == 1


def test_a_failure_while_time_was_stolen_is_tried_again_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tries(tmp_path, monkeypatch, 0.6) == stolen.ROUNDS
    assert stolen.TRIES.read_text().splitlines() == [f"{FAILED} (60% stolen)"] * stolen.ROUNDS


def test_what_passes_in_the_end_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    stolen.record(FAILED, 0.6)
    monkeypatch.setattr(sys, "argv", ["stolen", sys.executable, "-c", ""])
    assert stolen.main() == 0


def test_the_share_is_between_nothing_and_everything() -> None:
    assert -0.01 <= stolen.Watch().share() <= 1.5
