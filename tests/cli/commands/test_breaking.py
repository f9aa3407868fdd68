"""`break`: what it says, what it asks, and what it does."""

from __future__ import annotations

import getpass
import logging
import socket
import sys
from pathlib import Path

import pytest

import lockfast
from lockfast.guards.files import FileGuard
from tests.cli.commands.calls import LONG, Calls, awaited
from tests.cli.commands.terminal import Terminal
from tests.servers import wait_until

REASON = ("--reason", "web-3 hangs")


def test_break_says_what_the_old_holder_can_still_do_and_what_a_guard_refuses(
    call: Calls, tmp_path: Path
) -> None:
    guard = FileGuard(tmp_path / "balance")
    with awaited(call.url, "x", purpose="nightly run") as lease:
        guard.write(lease, b"1")
        said = call("break", "x", *REASON, "--yes")
        assert said.code == 0
        assert "(nightly run)" in said.words
        assert "The next waiter acquires it immediately." in said.words
        assert "lockfast does not stop the old holder. If it is running, it notices" in said.words
        assert "at its next renewal, within 10 s" in said.words
        assert f"rejects token {lease.token} as soon as the next holder has sealed" in (said.words)
        assert said.out.endswith("Broken: web-3 hangs\n")
        # And so it is: the old holder writes on, until the next one has sealed.
        guard.write(lease, b"2")
        with lockfast.connect(call.url) as client, client.lock("x", timeout=30) as following:
            guard.seal(following)
            with pytest.raises(lockfast.StaleToken):
                guard.write(lease, b"3")
    assert guard.path.read_bytes() == b"2"


def test_the_reason_goes_to_the_log(call: Calls, caplog: pytest.LogCaptureFixture) -> None:
    with lockfast.connect(call.url) as client, caplog.at_level(logging.WARNING, "lockfast"):
        client.lock("x", purpose="why").acquire()
        assert call("break", "x", *REASON, "--yes", "--json").code == 0
    assert "web-3 hangs" in caplog.text
    assert "(why)" in caplog.text


def test_a_ticket_in_the_reason_is_not_taken_for_the_leases(call: Calls) -> None:
    with lockfast.connect(call.url) as client:
        lease = client.lock("x", ttl=LONG).acquire()
        assert call("break", "x", "--reason", "web-3 hangs, ticket 4711", "--yes").code == 0
        lines = call("who", "x").out.splitlines()
        assert lines[-2].endswith(": web-3 hangs, ticket 4711")
        assert lines[-1].strip() == f"the broken lease had ticket {lease.token}"


def test_who_names_the_one_who_broke_it_and_why(call: Calls) -> None:
    with lockfast.connect(call.url) as client:
        lease = client.lock("x", ttl=LONG).acquire()
        assert call("break", "x", "--reason", "web-3 hangs\n\x1b[2J", "--yes").code == 0
        said = call("who", "x")
        assert said.code == 1
        assert f"It was last broken by {getpass.getuser()} on {socket.gethostname()}" in said.words
        assert "web-3 hangs\\n\\x1b[2J" in said.out
        (told,) = call("who", "x", "--json").objects
        assert (told["state"], told["id"], told["reason"]) == (
            "broken",
            lease.id,
            "web-3 hangs\n\x1b[2J",
        )
        with pytest.raises(lockfast.LeaseLost, match="web-3 hangs"):
            lease.release()


def test_break_tells_a_program_what_it_took_from_whom(call: Calls) -> None:
    with awaited(call.url, "x") as lease:
        (told,) = call("break", "x", *REASON, "--yes", "--json").objects
        assert (told["broken"], told["reason"], told["claim"]["id"]) == (
            True,
            "web-3 hangs",
            lease.id,
        )


def test_nothing_is_broken_that_nobody_holds(call: Calls) -> None:
    assert call("break", "x", *REASON, "--yes") == (1, "", "lockfast: no process holds 'x'\n")


def test_without_a_terminal_and_without_yes_nothing_is_broken(
    call: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", open("/dev/null", encoding="ascii"))  # noqa: PTH123, SIM115  # until the end
    with lockfast.connect(call.url) as client, client.lock("x", ttl=LONG) as lease:
        said = call("break", "x", *REASON)
        assert said.code == 64
        assert "pass --yes" in said.err
        assert [each.id for each in client.lock("x").queue()] == [lease.id]
    sys.stdin.close()


def test_without_a_reason_nothing_is_broken(call: Calls) -> None:
    said = call("break", "x", "--yes")
    assert said.code == 64
    assert "--reason" in said.err


def test_of_several_holders_one_must_be_named(call: Calls) -> None:
    with lockfast.connect(call.url) as client:
        leases = [client.rwlock("book").read().acquire() for _ in range(2)]
        said = call("break", "book", *REASON, "--yes")
        assert said.code == 64
        assert all(lease.id in said.err for lease in leases)
        said = call("break", "book", *REASON, "--yes", "--id", leases[1].id)
        assert said.code == 0
        assert "no guard can reject its writes" in said.words
        assert [each.id for each in client.rwlock("book").read().queue()] == [leases[0].id]


def test_in_a_terminal_it_asks_and_takes_no_for_an_answer(url: str) -> None:
    argv = [sys.executable, "-m", "lockfast.cli", "--url", url, "break", "x", *REASON]
    with lockfast.connect(url) as client:
        lease = client.lock("x", ttl=LONG).acquire()
        with Terminal(argv) as terminal:
            terminal.see("If you break it:", "It is free immediately.", "Break it?")
            terminal.press("n\r")
            assert terminal.end() == 1
        lease.ensure_held()
        assert client.lock("x").holders()[0].id == lease.id
        with Terminal(argv) as terminal:
            terminal.see("Break it?")
            terminal.press("y\r")
            terminal.see("Broken: web-3 hangs")
            assert terminal.end() == 0
        wait_until(lambda: lease.state is lockfast.State.LOST, "the old holder learns of it", 20)
