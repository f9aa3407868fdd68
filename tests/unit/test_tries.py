"""Tests that fail are run again: one that passes in the end has passed, a broken one has not."""

from pathlib import Path

import pytest

from tests import tries

FAILS = """
from pathlib import Path

def test_it():
    file = Path(__file__).with_suffix(".count")
    count = len(file.read_text()) if file.exists() else 0
    file.write_text("x" * (count + 1))
    assert count >= {times}

def test_another():
    with Path(__file__).with_suffix(".other").open("a") as file:
        file.write("x")
"""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "PAUSE", 0.0)


def run(folder: Path, times: int) -> tuple[int, int]:
    """Run a test that fails so many times; return the exit status, and how often it ran."""
    file = folder / "test_it.py"
    file.write_text(FAILS.format(times=times), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    status = tries.main(["-q", "-c", str(folder / "pytest.ini"), str(folder)])
    assert len(file.with_suffix(".other").read_text("utf-8")) == 1  # what passed is not run again
    return status, len(file.with_suffix(".count").read_text("utf-8"))


@pytest.mark.parametrize(("times", "expected"), [(0, (0, 1)), (2, (0, 3)), (9, (1, tries.TRIES))])
def test_a_test_has_failed_if_it_failed_at_every_try(
    times: int, expected: tuple[int, int], tmp_path: Path
) -> None:
    assert run(tmp_path, times) == expected


def test_what_is_no_tests_failure_is_not_tried_again(tmp_path: Path) -> None:
    assert tries.main(["-q", str(tmp_path / "nowhere.py")]) == 4
