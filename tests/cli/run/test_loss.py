"""When the lease cannot be kept, nothing of the command is alive when the next holder begins."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lockfast
from tests.cli.run.conftest import Place
from tests.cli.run.family import MEMBERS, Family
from tests.cli.run.program import Program, run
from tests.servers import Proxy, Redis, wait_until

TTL = 3.0
NAME = "nightly"


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)


@contextmanager
def holding(url: str, family: Family, *options: str) -> Iterator[Program]:
    """Run a shell with the whole family under the lock."""
    shell = ["sh", "-c", '"$@" & wait', "sh", *family.argv]
    with Program(url, "run", NAME, "--ttl", str(TTL), *options, "--", *shell) as program:
        family.complete()
        yield program


@contextmanager
def next_holder(url: str) -> Iterator[list[float]]:
    """Wait in line for the lock; the moment of the grant is in the list when the block ends."""
    granted: list[float] = []

    def wait() -> None:
        with lockfast.connect(url) as client, client.lock(NAME, ttl=30.0, timeout=60.0):
            granted.append(time.monotonic())

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        with lockfast.connect(url) as client:
            wait_until(lambda: len(client.lock(NAME).queue()) > 1, "the next one waits", 30.0)
        yield granted
    finally:
        thread.join(70.0)


def nothing_lives(family: Family, granted: list[float]) -> None:
    """Nobody was seen alive after the next holder's grant, nor is there anybody."""
    assert granted, "the next holder never got it"
    traces = family.traces()
    assert traces.keys() == set(MEMBERS)
    assert {name: each.seen for name, each in traces.items() if each.seen >= granted[0]} == {}
    assert family.alive() == set()


def test_a_partition_ends_the_command_before_the_next_holder_begins(
    place: Place, family: Family
) -> None:
    # Stopped first, it must be continued to see its TERM.
    with holding(place.proxied, family, "--freeze") as program:
        with next_holder(place.url) as granted:
            place.proxy.cut()
        nothing_lives(family, granted)
        told = family.told()
        assert told is not None, "the polite one had its chance"
        assert told < family.traces()["deaf"].seen, "and the deaf one was killed after that"
        assert program.wait() == 76
        assert "was not renewed" in program.stderr


def test_a_command_that_hangs_ends_after_at_most_and_before_the_next_holder_begins(
    place: Place, family: Family
) -> None:
    with holding(place.url, family, "--at-most", "10") as program:
        with next_holder(place.url) as granted:
            pass
        nothing_lives(family, granted)
        assert family.told() is not None
        assert program.wait() == 76
        assert "has reached its --at-most" in program.stderr
        assert "it reached its at_most" in program.stderr


def test_lockfast_itself_stopped_beyond_its_ttl_does_not_leave_its_command_running(
    place: Place, family: Family
) -> None:
    with holding(place.url, family) as program:
        with next_holder(place.url) as granted:
            os.killpg(program.process.pid, signal.SIGSTOP)  # the whole job, as a shell does
        nothing_lives(family, granted)
        assert family.told() is not None
        program.send(signal.SIGCONT)
        assert program.wait() == 76


def test_lockfast_killed_takes_its_command_with_it(place: Place, family: Family) -> None:
    with holding(place.url, family) as program:
        with next_holder(place.url) as granted:
            program.send(signal.SIGKILL)
            assert program.wait() == -signal.SIGKILL
        nothing_lives(family, granted)
        assert family.told() is not None


def test_a_watchdog_killed_takes_the_command_with_it(url: str, family: Family) -> None:
    with holding(url, family) as program:
        with next_holder(url) as granted:
            subprocess.run(["pkill", "-KILL", "-P", str(program.process.pid)], check=True)
            assert program.wait() == 70
        nothing_lives(family, granted)


def test_a_watchdog_that_is_stopped_is_replaced_by_lockfast(family: Family) -> None:
    with (
        Redis() as server,
        Proxy(server.host, server.port) as proxy,
        holding(f"redis://{proxy.address}", family) as program,
    ):
        with next_holder(server.url) as granted:
            subprocess.run(["pkill", "-STOP", "-P", str(program.process.pid)], check=True)
            proxy.cut()
        nothing_lives(family, granted)
        assert program.wait() == 76
        assert "so lockfast did" in program.stderr


def test_a_lease_that_the_engine_no_longer_has_leaves_no_time_for_grace(family: Family) -> None:
    with Redis() as server, holding(server.url, family, "--ttl", "6") as program:
        server.command("FLUSHALL")
        assert program.wait() == 76
        assert family.alive() == set()
        assert family.told() is None, "the next holder may be at work already"
        assert "no longer has it" in program.stderr


def test_a_holder_whose_lock_is_broken_names_who_broke_it_and_why(url: str, family: Family) -> None:
    with holding(url, family) as program:
        code, _, said = run(url, "break", NAME, "--reason", "web-3 hangs", "--yes")
        assert code == 0, said
        assert program.wait() == 76
        assert re.search(
            rf"the lease on '{NAME}' could not be kept, so lockfast ended the command: it was "
            rf"broken by .*{re.escape(socket.gethostname())}.*: web-3 hangs \(see: lease-lost\)\n$",
            program.stderr,
        ), program.stderr
