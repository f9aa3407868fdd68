"""`demo` and the pictures: real processes in a real terminal, and nothing is left of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import pictures
from tests.cli.commands.terminal import Terminal
from tests.servers import wait_until

DEMO = [sys.executable, "-W", "error", "-m", "lockfast.cli", "demo", "--fast"]


def state(pid: int) -> str:
    """Tell the state of a process, as the kernel has it; "" if it is gone, or only not buried."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return stat.rpartition(")")[2].split()[0].replace("Z", "")


def children(pid: int) -> list[int]:
    """Tell all that a process has started, and they."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text("ascii").split()):
            found += [child, *children(child)]
    return found


def test_the_demo_stops_a_real_process_and_the_guard_refuses_it() -> None:
    with Terminal(DEMO, columns=80, lines=66) as terminal:
        shown = terminal.see("STOPPED", "waits for the lock", timeout=60)
        worker = int(re.findall(r"worker A, pid (\d+)", shown)[0])
        # If this test was not looking for longer than the pause, it is over by now.
        assert state(worker) == "T" or "SIGCONT" in terminal.see("B waits.")
        terminal.see("and the guard answers with StaleToken", timeout=60)
        assert terminal.end(60) == 0
        assert "the balance is 120. That is correct." in terminal.text
        assert "the balance is 110. That is wrong: 10 are lost." in terminal.text
        assert "The balance was 100. With a guard it is 120, without 110." in terminal.text
        assert state(worker) == ""


def test_without_a_server_the_demo_says_so_and_plays_with_its_own_memory() -> None:
    done = subprocess.run(
        DEMO,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "PATH": "/nonexistent"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    words = " ".join(done.stdout.split())
    assert "in its own memory, because redis-server or the Python package" in words
    assert "the guard answers with StaleToken" in done.stdout
    assert "The balance was 100. With a guard it is 120, without 110." in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_demo_that_is_ended_in_the_middle(
    number: signal.Signals, tmp_path: Path
) -> None:
    env = {"TMPDIR": str(tmp_path)}
    with Terminal(DEMO, lines=66, env=env) as terminal:
        terminal.see("STOPPED", timeout=80)
        started = children(terminal.pid)
        assert len(started) == 3  # two workers and a Redis
        if number is signal.SIGINT:
            terminal.press("\x03")
        else:
            os.kill(terminal.pid, number)
        assert terminal.end(30) == (-9 if number is signal.SIGKILL else 128 + number)
        assert "Traceback" not in terminal.text
    wait_until(lambda: not any(map(state, started)), "all of its processes are gone", 20)
    if number is not signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_in_the_documentation_shows_what_the_program_shows_today(name: str) -> None:
    kept = (pictures.FOLDER / f"{name}.svg").read_text("utf-8")
    taken = pictures.PICTURES[name]()
    assert pictures.essence(pictures.read(kept)) == pictures.essence(taken.text), (
        "take them again: python -m tests.cli.commands.pictures"
    )
    assert pictures.essence(pictures.read(taken.svg)) == pictures.essence(taken.text)
