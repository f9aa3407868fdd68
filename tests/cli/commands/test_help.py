"""`--help` reads like a manual, and the shell completes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import lockfast
from lockfast.cli.app import SEEING, launch
from tests.cli.commands.calls import Calls

PAGES = Path(__file__).parents[3] / "docs" / "how-to"


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be folded."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")


@pytest.mark.parametrize("command", SEEING)
def test_each_command_has_examples_that_it_understands_and_its_exit_codes(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch([command, "--help"]) == 0
    said = capsys.readouterr().out
    assert "Exit codes:" in said
    # `demo` runs an engine of its own, `serve` and `web` also run while the engine is away, and
    # `new-key` connects to nothing.
    if command not in {"demo", "serve", "web", "new-key"}:
        assert re.search(r"^ +69  the engine cannot be reached", said, re.MULTILINE)
        assert re.search(r"^ +78  the engine rejects the request", said, re.MULTILINE)
    examples = re.findall(r"^\s+lockfast (.*)", said.partition("For example:")[2], re.MULTILINE)
    assert examples
    for example in examples:
        assert command in example.split()
        for option in re.findall(r"--[a-z-]+", example.partition(f"{command} ")[2]):
            assert f"{option} " in said.partition("Options")[2], (example, option)


def test_the_list_of_commands_says_what_each_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert launch(["--help"]) == 0
    said = capsys.readouterr().out
    for command in SEEING:
        (line,) = [each for each in said.splitlines() if re.match(rf"│ {command}\s", each)]
        assert len(line.split()) > 4


@pytest.mark.parametrize("command", ["run", "elect", *SEEING])
def test_in_a_narrow_terminal_only_the_last_line_of_a_paragraph_is_short(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert launch([command, "--help"]) == 0
    text, _, _ = capsys.readouterr().out.partition("╭")
    lines = [line.strip() if line[:3] != "   " else "" for line in text.splitlines()]
    for line, following in pairwise(lines):
        if line and following and not line.endswith(":"):  # not the heading of a list
            # The next word did not fit: `run --help` once broke lines in the middle.
            assert len(f"{line} {following.split()[0]}") > 78, line


@pytest.mark.parametrize("command", ["", "run", "elect", *SEEING])
def test_a_flag_is_not_shown_as_if_it_took_a_value(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch([*filter(None, [command]), "--help"]) == 0
    said = capsys.readouterr().out
    assert "<bool>" not in said
    assert re.search(r"│ +--help +Show this message", said)


def completed(url: str, *words: str) -> list[str]:
    """Ask as bash does when TAB is pressed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "lockfast.cli"],
        env={
            **os.environ,
            "LOCKFAST_URL": url,
            "_LOCKFAST_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(("lockfast", *words)),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_the_shell_completes_commands_and_the_names_that_are_held_now(url: str) -> None:
    assert set(completed(url, "d")) == {"deadlocks", "demo", "doctor"}
    with lockfast.connect(url) as client:
        leases = [client.lock(name).acquire() for name in ("invoice-42", "invoice-43", "report")]
        assert completed(url, "who", "inv") == ["invoice-42", "invoice-43"]
        assert completed("redis://127.0.0.1:1", "who", "inv") == []  # and nothing is raised
        assert len(leases) == 3


def test_no_name_is_completed_that_a_shell_would_execute(url: str) -> None:
    """bash puts a completion into the line as it is: `$(...)` in a name was run at Enter."""
    hostile = [
        "bad$(touch x)",
        "bad`id`",
        "bad;id",
        "bad|id",
        "bad&",
        "bad>f",
        "bad\\$(id)",
        "bad'",
    ]
    with lockfast.connect(url) as client, client.lock_all(*hostile, "bad:42/a.b@c,d+e%f=g-h_é"):
        assert completed(url, "who", "bad") == ["bad:42/a.b@c,d+e%f=g-h_é"]


def test_the_shell_completes_from_the_engine_that_the_command_line_names(
    url: str, tmp_path: Path
) -> None:
    secret = tmp_path / "url"
    secret.write_text(url, "utf-8")
    wrong = "redis://127.0.0.1:1"
    with lockfast.connect(url) as client, client.lock("chosen-1"):
        assert completed(wrong, "--url-file", str(secret), "who", "ch") == ["chosen-1"]
        assert completed(wrong, "--url", url, "who", "ch") == ["chosen-1"]
        assert completed(url, "--url", url, "--url-file", str(secret), "who", "ch") == []


def test_the_script_for_a_shell_is_to_be_had() -> None:
    # From a bash, which it is to find among its ancestors; the last command of -c would replace it.
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m lockfast.cli --show-completion && true"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "complete -o default -F _lockfast_completion lockfast" in done.stdout


def test_the_fields_for_programs_are_documented(call: Calls) -> None:
    page = (PAGES / "seeing.md").read_text("utf-8")
    with lockfast.connect(call.url) as client:
        lease = client.lock("x").acquire()
        (claim,) = call("ls", "--json").objects
        (look,) = call("watch", "--json", "--count", "1").objects
        (broken,) = call("break", "x", "--reason", "why", "--yes", "--json").objects
        assert lease.id == claim["id"]
    for field in (*claim, *look, *broken):
        assert f"`{field}`" in page, field
    (told,) = call("doctor", "--json").objects
    page = (PAGES / "doctor.md").read_text("utf-8")
    for field in (*told, *told["findings"][0]):
        assert f"`{field}`" in page, field
