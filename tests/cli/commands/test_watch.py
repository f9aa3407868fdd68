"""`watch`: a live table, in a real terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import lockfast
from tests.cli.commands.calls import LONG, Calls, awaited, crossed
from tests.cli.commands.terminal import Terminal
from tests.servers import Redis


def watch(url: str, *more: str, lines: int = 30) -> Terminal:
    argv = [sys.executable, "-W", "error", "-m", "lockfast.cli", "--url", url, "watch"]
    return Terminal([*argv, "--every", "0.1", *more], columns=140, lines=lines)


def test_watch_follows_the_locks_as_they_change_until_ctrl_c(url: str) -> None:
    with lockfast.connect(url) as client, watch(url) as terminal:
        terminal.see("No lock is held.", url)
        with awaited(url, "invoice:42", purpose="nightly run") as lease:
            shown = terminal.see("invoice:42", "who waits for whom", "1 waiting")
            (row,) = [line for line in shown.splitlines() if str(lease.token) in line]
            for word in ("invoice:42", "nightly run", str(os.getpid()), "━", " s "):
                assert word in row
            assert row.split()[-1] == "1"
        terminal.see("No lock is held.", without=["nightly run"])
        lease = client.lock("report", ttl=LONG).acquire()
        terminal.see("report", "grants seen in a minute", without=["No lock is held."])
        lease.release()
        terminal.press("\x03")
        assert terminal.end() == 0
        assert "Traceback" not in terminal.text


def test_watch_prints_each_look_to_a_pipe_at_once(url: str) -> None:
    argv = [sys.executable, "-W", "error", "-m", "lockfast.cli", "--url", url, "watch"]
    with subprocess.Popen([*argv, "--every", "0.1"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            seen = 0
            for line in process.stdout:  # it ends by itself, and then too few were seen
                seen += "No lock is held." in line
                if seen == 3:
                    break
        finally:
            process.kill()
    assert seen == 3


def test_watch_draws_a_circle_and_calls_it_a_deadlock(url: str) -> None:
    with watch(url) as terminal, crossed(url):
        shown = terminal.see("deadlock: ", "waits, holding left", "see above")
        assert "waits for 'left', which" in " ".join(shown.split())


def test_watch_shows_no_more_than_fits_and_the_most_waited_for_first(url: str) -> None:
    with lockfast.connect(url) as client:
        leases = [client.lock(f"job {number:02}", ttl=LONG).acquire() for number in range(40)]
        with awaited(url, "wanted"), watch(url, lines=20) as terminal:
            shown = terminal.see("wanted", "who waits for whom", "hot names", "more names")
            lines = shown.splitlines()
            assert "wanted" in lines[4]
            assert sum("job " in line for line in lines) >= 3
            assert len(leases) == 40


def test_watch_says_that_the_engine_is_away_and_goes_on_when_it_is_back() -> None:
    with Redis(appendonly=True) as server, lockfast.connect(server.url) as client:
        lease = client.lock("report", ttl=LONG, purpose="totals").acquire()
        with watch(server.url) as terminal:
            terminal.see("totals")
            server.stop()
            terminal.see("cannot be reached", "totals")
            server.start()
            terminal.see("totals", without=["cannot be reached"])
            terminal.press("\x03")
            assert terminal.end() == 0
        lease.release()


def test_watch_tells_a_program_one_object_per_look(url: str) -> None:
    argv = [sys.executable, "-W", "error", "-m", "lockfast.cli", "--url", url, "watch"]
    with crossed(url):
        said = subprocess.run(
            [*argv, "--json", "--every", "0.1", "--count", "2"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    assert said.stderr == ""
    looks = [json.loads(line) for line in said.stdout.splitlines()]
    assert len(looks) == 2
    for look in looks:
        assert list(look) == ["at", "claims", "hot", "waits", "deadlocks"]
        ids = {claim["id"]: claim["state"] for claim in look["claims"]}
        assert sorted(ids.values()) == ["holds", "holds", "waits", "waits"]
        assert [(ids[wait["waiting"]], ids[wait["holder"]]) for wait in look["waits"]] == [
            ("waits", "holds")
        ] * 2
        (circle,) = look["deadlocks"]
        assert [ids[each] for each in circle] == ["waits", "waits"]
        assert {hot["name"]: hot["waiters"] for hot in look["hot"]} == {"left": 1, "right": 1}


def test_watch_in_a_pipe_prints_the_last_look(call: Calls) -> None:
    with awaited(call.url, "x", purpose="why"):
        said = call("watch", "--count", "1")
    assert said.code == 0
    assert "why" in said.out
    assert "\x1b" not in said.out


def test_a_password_in_the_url_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with Redis(password="secret") as server:  # noqa: S106  # of a test
        said = Calls(server.url, capsys)("watch", "--count", "1")
    assert "secret" not in said.out
    assert server.address in said.out
