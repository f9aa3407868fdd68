"""Names and descriptions that are commands to a terminal, or markup: they are only shown."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

import lockfast
from lockfast.plain import plain
from tests.cli.commands.calls import LONG, Calls, awaited
from tests.cli.commands.terminal import Terminal

NAMES = [
    "invoice:[/42]",
    "[link=https://evil.example]click[/link]",
    "[red]x",
    ":warning: [blink]y",
    "\x1b[2J\x1b[Hgone\r\nlockfast: all is well\x1b]0;pwned\x07",
    "\u202etxt.exe",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_is_shown_as_it_is_by_every_command(call: Calls, name: str) -> None:
    with awaited(call.url, name, purpose=name):
        for command in (("ls",), ("who", name), ("watch", "--count", "1"), ("deadlocks",)):
            said = call(*command)
            assert (said.code, said.err) == (0, "")
            assert said.out.replace("\n", "").isprintable()
            if command[0] != "deadlocks":
                assert plain(name) in said.out
        said = call("break", name, "--reason", name, "--yes")
        assert said.code == 0
        assert said.out.replace("\n", "").isprintable()
        assert f"Broken: {plain(name)}" in said.out


@pytest.mark.parametrize("name", NAMES)
def test_watch_in_a_terminal_goes_on_with_a_hostile_name(url: str, name: str) -> None:
    argv = [sys.executable, "-W", "error", "-m", "lockfast.cli", "--url", url, "watch"]
    with awaited(url, name), Terminal([*argv, "--every", "0.1"], columns=200) as terminal:
        terminal.see(plain(name), "who waits for whom", "hot names", without=["Traceback"])
        terminal.press("\x03")
        assert terminal.end() == 0


def test_a_hostile_holder_can_not_write_a_second_line_to_the_mail_of_cron(url: str) -> None:
    hostile = NAMES[4]
    argv = [sys.executable, "-m", "lockfast.cli", "--url", url, "run", "-n", hostile, "--", "true"]
    with lockfast.connect(url) as client, client.lock(hostile, ttl=LONG, purpose=hostile):
        said = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == 75
    (line,) = said.stderr.splitlines()
    assert line.isprintable()
    assert line.startswith("lockfast: ")


def test_a_hostile_name_and_holder_and_reason_make_one_line_in_the_log(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    hostile = NAMES[4]
    with lockfast.connect(url) as client, caplog.at_level(logging.INFO, "lockfast"):
        lease = client.lock(hostile, ttl=LONG, purpose=hostile).acquire()
        with pytest.raises(lockfast.NotAcquired) as busy:
            client.lock(hostile).acquire(timeout=1.2)
        assert str(busy.value).isprintable()
        client.revoke(client.lock(hostile).holders()[0], hostile)
        assert lease.wait_lost(LONG)
    assert len(caplog.messages) >= 2
    assert all(message.isprintable() for message in caplog.messages)
