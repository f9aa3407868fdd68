"""`ls` and `who`: who holds what, for people and for programs."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys

import pytest

import lockfast
from lockfast.cli.app import SEEING
from tests.cli.commands.calls import Calls, awaited
from tests.servers import free_port

FIELDS = [
    "name",
    "state",
    "token",
    "ticket",
    "host",
    "pid",
    "worker",
    "service",
    "purpose",
    "since",
    "ttl",
    "subject",
    "address",
    "value",
    "left",
    "kind",
    "weight",
    "capacity",
    "id",
]
HOSTILE = "\x1b[2Jgone\n[bold]loud[/bold]\x07"


def test_ls_shows_who_holds_what_and_how_many_wait(call: Calls) -> None:
    with awaited(call.url, "invoice:42", purpose="nightly run") as lease:
        said = call("ls")
    assert said.code == 0
    (row,) = [line for line in said.out.splitlines() if "invoice:42" in line]
    assert "nightly run" in row
    assert socket.gethostname() in row
    assert f" {os.getpid()} " in row
    assert f" {lease.token} " in row
    assert row.split()[-1] == "1"


def test_ls_shows_only_names_that_begin_so(call: Calls) -> None:
    with lockfast.connect(call.url) as client:
        leases = [client.lock(name).acquire() for name in ("pay:1", "pay:2", "ship:1")]
        assert [each["name"] for each in call("ls", "pay:", "--json").objects] == ["pay:1", "pay:2"]
        assert len(call("ls", "--json").objects) == len(leases)


def test_ls_says_so_when_nothing_is_held(call: Calls) -> None:
    assert call("ls") == (0, "No lock is held.\n", "")
    assert call("ls", "--json") == (0, "", "")
    assert call("ls", "zz:") == (0, "No lock whose name begins with 'zz:' is held.\n", "")


def test_the_fields_for_programs_are_these_and_big_numbers_are_strings(call: Calls) -> None:
    with awaited(call.url, "x", purpose="why") as lease:
        holder, waiter = call("ls", "--json").objects
        assert call("who", "x", "--json").objects[0]["id"] == lease.id
    assert list(holder) == list(waiter) == FIELDS
    assert (holder["state"], waiter["state"]) == ("holds", "waits")
    assert (holder["token"], waiter["token"]) == (str(lease.token), None)
    assert (holder["ttl"], holder["purpose"], holder["pid"]) == (30.0, "why", os.getpid())
    assert 0 < holder["left"] <= 30


def test_readers_and_permits_are_shown_as_what_they_are(call: Calls) -> None:
    with lockfast.connect(call.url) as client:
        leases = [client.rwlock("book").read().acquire() for _ in range(2)]
        leases.append(client.semaphore("desks", 5, permits=2).acquire())
        said = call("ls")
        assert said.out.count("reader") == 2
        assert said.out.count("book") == 1  # the name stands at its first holder
        assert "2 of 5" in said.out
        assert len(leases) == 3


def test_a_hostile_name_does_nothing_to_the_terminal(call: Calls) -> None:
    with lockfast.connect(call.url) as client:
        lease = client.lock(HOSTILE, purpose=HOSTILE).acquire()
        for said in (call("ls"), call("who", HOSTILE)):
            assert "\x1b" not in said.out
            assert "\x07" not in said.out
            assert r"\x1b[2Jgone\n[bold]loud[/bold]\x07" in said.words
        assert call("ls", "--json").objects[0]["name"] == HOSTILE
        lease.release()


def test_who_tells_the_holder_and_the_line_behind_it(call: Calls) -> None:
    with awaited(call.url, "x", purpose="nightly run") as lease:
        said = call("who", "x")
    assert said.code == 0
    assert said.out.startswith("'x' is held by\n")
    assert f"(nightly run) on {socket.gethostname()} pid {os.getpid()}" in said.out
    assert re.search(r"\], for \d+ s$", said.out, re.MULTILINE)
    assert f"token {lease.token}" in said.out
    assert "1. " in said.out
    assert "(to be next)" in said.out


def test_who_says_by_its_exit_code_that_a_lock_is_free(call: Calls) -> None:
    assert call("who", "x") == (1, "'x' is free.\n", "")


ASKING = {
    "ls": (),
    "who": ("x",),
    "watch": (),
    "break": ("x", "--yes", "--reason", "why"),
    "deadlocks": (),
    "doctor": (),
}


def test_every_command_that_asks_the_engine_is_tested_without_one() -> None:
    assert ASKING.keys() == SEEING.keys() - {"install", "demo", "serve", "new-key", "web"}


@pytest.mark.parametrize("command", [(name, *rest) for name, rest in ASKING.items()])
def test_an_engine_that_is_not_there_is_exit_code_69(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = Calls(f"redis://127.0.0.1:{free_port()}", capsys)(*command)
    assert said.code == 69
    assert said.out == ""
    assert said.err.startswith("lockfast: ")


def test_whoever_has_read_enough_of_a_long_list_sees_no_traceback(url: str) -> None:
    with lockfast.connect(url) as client:
        leases = [client.lock(f"job {number:04}").acquire() for number in range(300)]
        program = [sys.executable, "-W", "error", "-m", "lockfast.cli", "--url", url, "ls"]
        for more in ((), ("--json",)):
            with subprocess.Popen(
                [*program, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as process:
                assert process.stdout is not None
                assert process.stderr is not None
                process.stdout.read(10)
                process.stdout.close()
                assert process.stderr.read() == b""
                assert process.wait(30) == 0
        assert len(leases) == 300
