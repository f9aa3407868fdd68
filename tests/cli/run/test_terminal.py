"""`lockfast run` in a real terminal: Ctrl-C, Ctrl-Z, fg and bg do what they do without it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

import lockfast
from tests.cli.run.program import argv_of
from tests.cli.run.terminal import CTRL_C, CTRL_Z, Terminal
from tests.servers import wait_until

ASKS = "read line </dev/tty; echo so: $line"


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def under(url: str, name: str, script: str) -> str:
    """Write the line that runs a script under a lock."""
    return shlex.join(argv_of(url, "run", name, "--", "sh", "-c", script))


def test_ctrl_c_ends_the_command_and_the_script_around_it(
    url: str, name: str, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    # One process that says so and waits: a shell that is about to run `sleep` may lose the signal.
    waits = "import signal; print('ready', flush=True); signal.pause()"
    line = shlex.join(argv_of(url, "run", name, "--", sys.executable, "-c", waits))
    script.write_text(f"{line}\necho went on\n", "utf-8")
    with Terminal() as terminal, lockfast.connect(url) as client:
        terminal.enter(f"bash {script}\n")
        terminal.shows("ready")
        terminal.enter(CTRL_C)
        terminal.shows("$ ")
        terminal.enter("echo code=$?\n")
        terminal.shows("code=130")
        assert "went on" not in terminal.screen()
        assert client.lock(name).queue() == []


def test_a_command_that_goes_on_after_ctrl_c_does(url: str, name: str) -> None:
    script = (
        "trap 'echo ha''ha' INT; echo re''ady; "
        'until [ "$line" ]; do read line; done; echo so: $line; exit 3'
    )
    with Terminal() as terminal:
        terminal.enter(under(url, name, script) + "\n")
        terminal.shows("ready")
        terminal.enter(CTRL_C)
        terminal.shows("haha")
        terminal.enter("one\n")
        terminal.shows("so: one")
        terminal.shows("$ ")
        terminal.enter("echo code=$?\n")
        terminal.shows("code=3")


def test_ctrl_c_while_waiting_leaves_the_queue(url: str, name: str) -> None:
    with Terminal() as terminal, lockfast.connect(url) as client, client.lock(name):
        terminal.enter(under(url, name, "echo ran") + "\n")
        wait_until(lambda: len(client.lock(name).queue()) == 2, "it waits", 30.0)
        terminal.enter(CTRL_C)
        terminal.shows("$ ")
        terminal.enter("echo code=$?\n")
        terminal.shows("code=130")
        assert len(client.lock(name).queue()) == 1


def test_ctrl_z_stops_it_and_fg_goes_on(url: str, name: str) -> None:
    with Terminal() as terminal:
        terminal.enter(under(url, name, f"echo re''ady; {ASKS}") + "\n")
        terminal.shows("ready")
        terminal.enter(CTRL_Z)
        terminal.shows("Stopped")
        terminal.enter("echo here\n")
        terminal.shows("here\r\n$ ")
        terminal.enter("fg\n")
        terminal.shows("lockfast.cli")
        terminal.enter("two\n")
        terminal.shows("so: two")
        terminal.shows("$ ")
        terminal.enter("echo code=$?\n")
        terminal.shows("code=0")


def test_in_the_background_it_waits_to_be_asked_for(url: str, name: str) -> None:
    with Terminal() as terminal:
        terminal.enter(under(url, name, f"echo re''ady; {ASKS}") + " &\n")
        terminal.shows("ready")
        terminal.shows("stopped: lockfast ends the command before the lease expires in")
        terminal.shows("Stopped")
        terminal.enter("fg\n")
        terminal.shows("lockfast.cli")
        terminal.enter("three\n")
        terminal.shows("so: three")


def test_bg_lets_it_go_on_behind(url: str, name: str) -> None:
    # It starts no other program: a shell that is stopped while it does cannot be stopped.
    with Terminal() as terminal:
        terminal.enter("mkfifo $HOME/go\n")
        terminal.shows("$ ")
        terminal.enter(under(url, name, "echo re''ady; read word <$HOME/go; echo so: $word") + "\n")
        terminal.shows("ready")
        terminal.enter(CTRL_Z)
        terminal.shows("Stopped")
        terminal.enter("bg\n")
        terminal.shows("&")
        terminal.enter("echo on >$HOME/go\n")
        terminal.shows("so: on")


def test_in_a_pipeline_the_others_keep_the_terminal_until_the_command_asks(
    url: str, name: str
) -> None:
    with Terminal() as terminal:
        wait = "until test -e $HOME/go; do sleep 0.05; done"
        line = under(url, name, f"echo re''ady >&2; {wait}; {ASKS}")
        other = "read word </dev/tty; echo next: $word; touch $HOME/go; cat"
        terminal.enter(f"{line} | sh -c {shlex.quote(other)}\n")
        terminal.shows("ready")
        terminal.enter("four\n")
        terminal.shows("next: four")
        terminal.enter("five\n")
        terminal.shows("so: five")


def test_without_a_shell_ctrl_z_cannot_stop_it_for_ever(url: str, name: str) -> None:
    script = "echo re''ady; read line; echo so: $line; exit 4"
    with Terminal(*argv_of(url, "run", name, "--", "sh", "-c", script)) as terminal:
        terminal.shows("ready")
        terminal.enter(CTRL_Z)
        terminal.shows("stopped")
        terminal.enter("six\n")
        terminal.shows("so: six")
        assert terminal.ended() == 4


def test_a_terminal_that_is_hung_up_ends_the_command(url: str, name: str) -> None:
    with lockfast.connect(url) as client:
        with Terminal() as terminal:
            terminal.enter(under(url, name, "echo re''ady; sleep 60") + "\n")
            terminal.shows("ready")
        wait_until(lambda: client.lock(name).queue() == [], "it is gone", 30.0)
