"""`lockfast run`: what a command gets, what it gives back, and who may run when."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

import lockfast
from lockfast.cli.app import launch
from tests.cli.run.family import Family
from tests.cli.run.program import Program, argv_of, run
from tests.servers import free_port, wait_until


def test_the_command_gets_the_name_and_the_token_and_its_exit_code_is_passed_on(url: str) -> None:
    code, said, _ = run(url, "run", "job", "--", "sh", "-c", "env | grep ^LOCKFAST_; exit 3")
    assert code == 3
    shown = dict(line.split("=", 1) for line in said.split())
    with lockfast.connect(url) as client, client.lock("job", timeout=0.0) as lease:
        assert shown["LOCKFAST_NAME"] == "job"
        assert 0 < int(shown["LOCKFAST_TOKEN"]) < lease.token


def test_a_permit_shows_no_token_since_it_has_none(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKFAST_TOKEN", "7")  # of a lock around this one
    code, said, _ = run(url, "run", "few", "--slots", "2", "--", "sh", "-c", "env")
    assert code == 0
    assert "LOCKFAST_NAME=few" in said
    assert "LOCKFAST_TOKEN" not in said


def test_so_many_run_at_once_and_no_more(url: str) -> None:
    with lockfast.connect(url) as client, client.semaphore("two", 2):
        assert run(url, "run", "two", "--slots", "2", "-n", "--", "true")[0] == 0
        with client.semaphore("two", 2):
            assert run(url, "run", "two", "--slots", "2", "-n", "--", "true")[0] == 75


def test_a_busy_lock_is_75_or_what_the_user_says_and_names_the_holder(url: str) -> None:
    with lockfast.connect(url) as client, client.lock("busy", purpose="closing the books"):
        code, said, complaint = run(url, "run", "busy", "-n", "--", "echo", "ran")
        assert (code, said) == (75, "")
        assert "closing the books" in complaint
        assert run(url, "run", "busy", "-w", "0.1", "-E", "9", "--", "echo", "ran")[0] == 9
        # For cron, which sends by mail whatever is written.
        assert run(url, "run", "busy", "-n", "-E", "0", "--", "echo", "ran") == (0, "", "")


def test_a_lock_that_is_released_in_time_is_waited_for(url: str) -> None:
    with lockfast.connect(url) as client:
        lease = client.lock("soon").acquire()
        # With such a grace, TERM is due at once unless the lease is renewed before the start.
        args = ("run", "soon", "-w", "60", "--grace", "13", "--", "sh", "-c", "sleep 0.2; echo ran")
        with Program(url, *args) as program:
            wait_until(lambda: len(client.lock("soon").queue()) == 2, "it waits", 30.0)
            lease.release()
            assert program.wait() == 0
            assert program.stdout == "ran\n"
        assert client.lock("soon").queue() == []


def test_a_quick_job_keeps_the_lock_for_the_time_it_was_told(url: str) -> None:
    args = ("run", "tick", "-n", "--ttl", "60", "--at-least", "50", "--", "true")
    assert run(url, *args)[0] == 0
    assert run(url, *args)[0] == 75


def test_an_engine_that_is_not_there_is_69() -> None:
    code, _, said = run(f"redis://127.0.0.1:{free_port()}", "run", "job", "-n", "--", "true")
    assert code == 69
    assert said.startswith("lockfast: ")
    assert "Traceback" not in said


@pytest.mark.parametrize("url", ["redis:/localhost", "nosuch://localhost", ""])
def test_a_wrong_url_is_78(url: str) -> None:
    code, _, said = run(url, "run", "job", "--", "true")
    assert code == 78
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["run", "job", "tail", "-n", "5"], "lockfast: put -- in front of the command"),
        (["run", "job", "--"], "Missing argument"),
        (["run", "job", "-n", "-w", "1", "--", "true"], "lockfast: use either -n or -w, not both"),
        (["run", "job", "--grace", "20", "--", "true"], "a longer --ttl"),
        (
            ["run", "job", "--ttl", "-1", "--", "true"],
            "--ttl must be 0.05 to 86400 seconds, not -1",
        ),
        (
            ["elect", "job", "--ttl", "0", "--", "true"],
            "--ttl must be 0.05 to 86400 seconds, not 0",
        ),
        (["run", "\udcff", "--", "true"], "not valid UTF-8 text"),
        (["elect", "job", "--value", "\udcff", "--", "true"], "not valid UTF-8 text"),
        (["ls", "\udcff"], "not valid UTF-8 text"),
        (["watch", "\udcff", "--count", "1"], "not valid UTF-8 text"),
        (["who", "\udcff"], "not valid UTF-8 text"),
        (["break", "job", "--reason", "\udcff", "--yes"], "not valid UTF-8 text"),
        (["run", "job", "--slots", "2", "--at-least", "1", "--", "true"], "--slots"),
        (
            ["run", "job", "--at-most", "0", "--", "true"],
            "at_most must be a number of seconds above 0",
        ),
        (
            ["run", "job", "--at-least", "9", "--at-most", "5", "--", "true"],
            "longer than at_most=5",
        ),
        (
            ["elect", "job", "--at-most", "-1", "--", "true"],
            "at_most must be a number of seconds above",
        ),
        (["nosuch"], "nosuch"),
    ],
)
def test_a_wrong_command_line_is_64_and_says_what_is_wrong(
    args: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch(["--url", "memory://", *args]) == 64
    assert complaint in capsys.readouterr().err


def test_more_than_a_thousand_inherited_descriptors_do_not_keep_a_command_from_running(
    url: str,
) -> None:
    """`select.select` takes none above 1023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("the machine allows too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    null = os.open(os.devnull, os.O_RDONLY)
    inherited = [null] + [os.dup(null) for _ in range(1100)]
    try:
        done = subprocess.run(
            argv_of(url, "run", "crowded", "--", "sh", "-c", "sleep 0.2; echo ran; exit 3"),
            pass_fds=inherited,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        for each in inherited:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (done.returncode, done.stdout, done.stderr) == (3, "ran\n", "")


def test_a_command_that_is_not_there_is_127_and_one_that_cannot_run_126(
    url: str, tmp_path: Path
) -> None:
    assert run(url, "run", "job", "--", "no-such-command")[0] == 127
    assert run(url, "run", "job", "--", str(tmp_path))[0] == 126


def test_a_command_that_a_signal_ended_is_128_and_the_signal(url: str) -> None:
    assert run(url, "run", "job", "--", "sh", "-c", "kill -KILL $$")[0] == 128 + signal.SIGKILL


def test_sigterm_while_waiting_leaves_the_queue(url: str) -> None:
    with lockfast.connect(url) as client, client.lock("taken") as lease:
        with Program(url, "run", "taken", "--", "echo", "ran") as program:
            wait_until(lambda: len(client.lock("taken").queue()) == 2, "it waits", 30.0)
            program.send(signal.SIGWINCH)  # ends nobody
            program.send(signal.SIGTERM)
            assert program.wait() == 128 + signal.SIGTERM
            assert program.stdout == ""
        assert [each.id for each in client.lock("taken").queue()] == [lease.id]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGRTMIN])
def test_a_signal_reaches_the_command_which_may_take_its_time(
    url: str, number: signal.Signals
) -> None:
    script = f"trap 'echo got; exit 5' {int(number)}; echo ready; while :; do sleep 0.05; done"
    with Program(url, "run", f"forward:{number}", "--", "bash", "-c", script) as program:
        program.says("ready")
        program.send(number)
        assert program.wait() == 5
        assert "got" in program.stdout


def test_what_the_command_leaves_behind_is_ended_before_the_lock_is_free(
    url: str, tmp_path: Path
) -> None:
    family = Family(tmp_path)
    ready = f"while [ ! -s {tmp_path}/head ]; do sleep 0.01; done"
    script = f'"$@" & {ready}; exit 4'
    shell = ("sh", "-c", script, "sh", *family.argv)
    with lockfast.connect(url) as client:
        with Program(url, "run", "left", "--grace", "0.2", "--", *shell) as program:
            family.complete()
            with client.lock("left", timeout=60.0):
                assert family.alive() == set()
            assert program.wait() == 4
        assert family.told() is not None


def test_the_command_leads_a_group_of_its_own(url: str) -> None:
    code, said, _ = run(url, "run", "job", "--", "sh", "-c", "ps -o pid=,pgid= -p $$")
    assert code == 0
    pid, group = said.split()
    assert pid == group


def test_what_was_ignored_stays_ignored(url: str) -> None:
    """As under nohup."""
    with lockfast.connect(url) as client:
        lease = client.lock("nohup").acquire()
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            script = "kill -HUP $$; echo alive"
            program = Program(url, "run", "nohup", "--", "sh", "-c", script)
        finally:
            signal.signal(signal.SIGHUP, before)
        with program:
            wait_until(lambda: len(client.lock("nohup").queue()) == 2, "it waits", 30.0)
            program.send(signal.SIGHUP)
            lease.release()
            assert program.wait() == 0
            assert program.stdout == "alive\n"


def test_nothing_of_lockfast_reaches_the_command_but_the_standard_streams(url: str) -> None:
    script = "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status"
    code, said, _ = run(url, "run", "job", "--", "sh", "-c", script)
    assert code == 0
    *streams, blocked, ignored = said.splitlines()
    assert streams == ["0", "1", "2", "3"]  # the last one is the listing itself
    assert int(blocked.split()[1], 16) == 0
    # Whoever started the tests may ignore some; Python ignores these two for itself.
    status = Path("/proc/self/status").read_text("ascii")
    inherited = int(status.partition("SigIgn:")[2].split()[0], 16)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        inherited &= ~(1 << number - 1)
    assert int(ignored.split()[1], 16) == inherited


def test_children_of_the_script_that_became_lockfast_are_left_alone(
    url: str, tmp_path: Path
) -> None:
    """`sidecar & exec lockfast run ...` killed the sidecar when the command had ended."""
    note = tmp_path / "pid"
    script = 'sleep 60 >/dev/null 2>&1 & echo $! > "$NOTE"; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *argv_of(url, "run", "job", "--", "true")],
        env={**os.environ, "NOTE": str(note)},
        timeout=60,
        check=False,
    )
    pid = int(note.read_text("ascii"))
    try:
        assert done.returncode == 0
        assert Path(f"/proc/{pid}/stat").read_text("ascii").split()[2] not in "ZX"
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
