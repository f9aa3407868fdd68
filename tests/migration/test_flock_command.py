"""The command lines of the page on flock exclude each other."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.migration.page import PAGES
from tests.servers import Redis, wait_until

PAGE = (PAGES / "flock.md").read_text("utf-8")
COMMANDS = re.findall(r"^\$ ((?:flock|lockfast run) .*)$", PAGE, re.MULTILINE)
LONG = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    with Redis() as server:
        yield server


def _start(command: str, folder: Path, work: str, server: Redis) -> subprocess.Popen[str]:
    for old, new in {
        "/tmp/": f"{folder}/",  # noqa: S108  # the page's
        "lockfast run": f"{sys.executable} -m lockfast.cli run",
        'echo "the report"': work,  # the last, because it may name a file in /tmp too
    }.items():
        command = command.replace(old, new)
    return subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        env={**os.environ, "LOCKFAST_URL": server.url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def test_the_page_has_the_three_commands() -> None:
    before, after, both = COMMANDS
    assert before.startswith("flock ")
    assert after.startswith("lockfast run ")
    assert both.startswith("lockfast run ")
    assert " flock " in both


@pytest.mark.parametrize(("first", "second"), [(0, 2), (2, 0), (2, 2), (1, 2), (2, 1)])
def test_the_second_command_finds_the_lock_busy(
    first: int, second: int, server: Redis, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    one = _start(COMMANDS[first], tmp_path, f"bash -c 'touch {ready}; sleep 600'", server)
    try:
        wait_until(ready.exists, "the first command runs", LONG)
        two = _start(COMMANDS[second], tmp_path, "echo ran", server)
        said, _ = two.communicate(timeout=LONG)
        assert said == ""
        assert two.returncode == (1 if second == 0 else 75)
    finally:
        os.killpg(one.pid, signal.SIGTERM)  # flock does not pass a signal on to its command
        one.communicate(timeout=LONG)
