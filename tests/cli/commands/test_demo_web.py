"""`demo --web`: real workers that wait, pause, deadlock and get broken, and nothing is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lockfast
from lockfast.cli.demo.staff import CREW, REASON, Staff, disturb
from tests.cli.commands.test_demo import children, state
from tests.cli.commands.test_web import get
from tests.cli.run.program import Program
from tests.servers import wait_until

LONG = 90.0
LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/([\w-]+/\?token=\S+)")


@contextmanager
def demo(folder: Path, *args: str) -> Iterator[Program]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setenv("PYTHONWARNINGS", "error")
        with Program(None, "demo", "--web", *args) as program:
            yield program


def test_the_workers_use_locks_of_all_kinds_and_get_into_trouble(url: str) -> None:
    seen: set[str] = set()
    over = threading.Event()
    with lockfast.connect(url) as client, lockfast.connect(url) as looker, Staff(url) as staff:
        disturbing = threading.Thread(target=disturb, args=(client, staff, over))
        disturbing.start()
        try:

            def happens() -> bool:
                claims = looker.inspect()
                seen.update(claim.kind.words for claim in claims)
                seen.update("waits" for claim in claims if not claim.granted)
                seen.update("leads" for claim in claims if claim.value)
                seen.update("deadlock" for _ in looker.deadlocks())
                seen.update("paused" for pid in staff.pids if state(pid) == "T")
                seen.update("broken" for each in looker.breaks("import") if each.reason == REASON)
                return len(seen) == 8

            wait_until(happens, f"all is seen: {seen}", LONG)
        finally:
            over.set()
            disturbing.join(30)
        assert len(staff.pids) == len(CREW)
        assert all(map(state, staff.pids)), "all go on"
    assert not any(map(state, staff.pids))


@pytest.mark.parametrize("engine", ["redis", "memory"])
def test_it_shows_them_in_a_browser_and_leaves_nothing(engine: str, tmp_path: Path) -> None:
    more = ["--memory"] if engine == "memory" else ["--seconds", "12"]
    with demo(tmp_path, *more) as program:
        program.says("Open this link")
        wait_until(lambda: LINK.search(program.stdout) is not None, "it has a link", LONG)
        found = LINK.search(program.stdout)
        assert found is not None
        port = int(found[1])
        started = children(program.process.pid)
        assert len(started) == len(CREW) + (engine == "redis")
        cookie, mount = get(port, f"/{found[2]}")[2], found[2].rpartition("/")[0]
        wanted = ("invoice:", "report", "catalogue", "mail", "scheduler", "order:17")

        def shown() -> bool:
            page = get(port, f"/{mount}/", Cookie=cookie)[1]
            return all(name in page for name in wanted)

        wait_until(shown, "the page shows the locks", 11)
        if engine == "memory":
            program.send(signal.SIGTERM)
        assert program.wait() == 0
        assert program.stderr.count("\n") == program.stderr.count("was taken from"), program.stderr
        own = "its own temporary Redis server" if engine == "redis" else "in its own memory"
        assert own in program.stdout
    assert not any(map(state, started))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_it_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    with demo(tmp_path) as program:
        program.says("http://")
        started = children(program.process.pid)
        assert len(started) == len(CREW) + 1
        last = Path(f"/proc/{started[-1]}/cmdline")  # as soon as it runs, it dies with its parent
        wait_until(lambda: b"die_with_parent" not in last.read_bytes(), "it runs", LONG)
        os.kill(started[-1], signal.SIGSTOP)  # it cannot end by itself
        program.send(number)
        assert program.wait() == (-9 if number is signal.SIGKILL else 0)
        assert "Traceback" not in program.stderr
    wait_until(lambda: not any(map(state, started)), "all of its processes are gone", 20)
    if number is not signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []


def test_seconds_need_the_web() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lockfast.cli", "demo", "--seconds", "3"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 64
    assert "--seconds needs --web" in done.stderr
