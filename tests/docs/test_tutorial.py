"""The tutorial as a new user tries it: from the built wheel, in an empty environment."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs.page import complaints
from tests.docs.tutorial import files, follow, matches, steps
from tests.servers.process import free_port

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"


def test_from_the_wheel_to_a_refused_write_by_the_tutorial_to_the_letter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
    subprocess.run([*build, str(tmp_path), str(ROOT)], check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    folder = tmp_path / "reader"
    folder.mkdir()
    began = time.monotonic()
    follow(
        PAGE.read_text("utf-8"),
        folder,
        {
            "6390": str(free_port()),
            "'lockfast[": f"'{wheel}[",
            "python3 -m": f"{sys.executable} -m",
        },
    )
    with capsys.disabled():
        print(f"\nthe tutorial, to the letter: {time.monotonic() - began:.1f} s", end="")  # noqa: T201  # asked for


def test_a_command_that_prints_something_else_is_noticed() -> None:
    assert matches(["token 7 is mine"], ["token … is mine"])
    assert not matches(["token is mine"], ["token … is mine"])
    assert not matches(["a", "b"], ["a"])


def test_the_page_has_what_the_reader_is_asked_to_save_and_to_type() -> None:
    page = PAGE.read_text("utf-8")
    assert list(files(page)) == ["deposit.py", "story.py", "guarded.py"]
    assert sum(step.command.startswith("python story.py") for step in steps(page)) == 2


def test_the_tutorial_leaves_the_readers_own_redis_alone() -> None:
    # Debian starts Redis on 6379 when it is installed. The tutorial's own server could not listen
    # there, and said so only in its log; the last command then ended the reader's, without saving.
    page = PAGE.read_text("utf-8")
    assert "6379" not in page
    talks = [step.command for step in steps(page) if step.command.startswith("redis-")]
    assert talks
    assert all(re.search(r" (-p|--port) 6390 ", command) for command in talks)


def test_a_warning_or_a_traceback_of_a_page_is_noticed_beside_a_logged_loss() -> None:
    lost = "the lease on 'job' (token 42) is lost: the engine no longer has it. Stop."
    assert not complaints(f"{lost}\n")
    assert complaints(f"{lost}\nRuntimeWarning: a lease was dropped\n") == (
        "RuntimeWarning: a lease was dropped"
    )
