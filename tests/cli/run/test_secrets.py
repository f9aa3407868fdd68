"""The engine's password: who sees it, and who does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockfast.cli.app import launch
from tests.cli.run.program import PATIENCE, ROOT

ENV = 'env | grep "^LOCKFAST_URL" || echo none'


def lockfast(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line, with the URL in its environment or in a file."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LOCKFAST_")}
    return subprocess.run(
        [sys.executable, "-m", "lockfast.cli", *args],
        cwd=ROOT,
        env={**clean, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("command", ["run", "elect"])
def test_the_command_does_not_get_the_url_unless_it_is_asked_for(url: str, command: str) -> None:
    said = lockfast(command, "job", "--", "sh", "-c", ENV, LOCKFAST_URL=url)
    assert (said.returncode, said.stdout) == (0, "none\n")
    said = lockfast(command, "job", "--keep-url", "--", "sh", "-c", ENV, LOCKFAST_URL=url)
    assert (said.returncode, said.stdout) == (0, f"LOCKFAST_URL={url}\n")


def test_the_url_is_read_from_a_file(url: str, tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text(f"{url}\n", "utf-8")
    said = lockfast("--url-file", str(secret), "run", "job", "--", "echo", "ran")
    assert (said.returncode, said.stdout) == (0, "ran\n")
    # The command line counts more than the environment.
    wrong = {"LOCKFAST_URL": "redis://nowhere.invalid"}
    assert lockfast("--url-file", str(secret), "ls", **wrong).returncode == 0
    assert lockfast("ls", LOCKFAST_URL_FILE=str(secret)).returncode == 0
    said = lockfast("ls", LOCKFAST_URL_FILE=str(tmp_path / "none"))
    assert said.returncode == 78
    assert "cannot be read: No such file" in said.stderr
    assert lockfast("--url", url, "--url-file", str(secret), "ls").returncode == 64


def test_a_wrong_url_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert launch(["--url", "redis://app:12/hunter2@host", "ls"]) == 78
    assert "hunter2" not in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--url", "--url-file"])
def test_an_option_behind_the_command_is_told_its_place(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch(["ls", option, "x"]) == 64
    assert f"before the command: lockfast {option} ... ls" in capsys.readouterr().err
