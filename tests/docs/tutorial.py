"""The tutorial, followed to the letter: its files are saved, its commands are typed, and what they
print is compared. Only the port and the place to install from are others.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(
    r"^```(\{code-block\} python\n:caption: (\S+)|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


class Step(NamedTuple):
    """A command, and what it is said to print; `…` stands for anything within a line."""

    command: str
    printed: list[str]


def files(page: str) -> dict[str, str]:
    """Give the files that the reader is asked to save."""
    return {name: text for _, name, text in BLOCK.findall(page) if name}


def steps(page: str) -> Iterator[Step]:
    """Give the commands that the reader is asked to type."""
    for kind, _, text in BLOCK.findall(page):
        if kind == "console":
            for part in text.split("$ ")[1:]:
                command, *printed = part.rstrip("\n").split("\n")
                yield Step(command, printed)


def matches(printed: list[str], said: list[str]) -> bool:
    """Tell whether a command printed what the page says."""
    if len(printed) != len(said):
        return False
    patterns = [re.escape(line).replace("…", ".+") for line in said]
    return all(map(re.fullmatch, patterns, printed))


def follow(page: str, folder: Path, swaps: Mapping[str, str]) -> None:
    """Do what the page says, in one shell; fail where it prints something else."""
    for old, new in swaps.items():
        assert old in page, old
        page = page.replace(old, new)
    for name, text in files(page).items():
        (folder / name).write_text(text, "utf-8")
    asked = list(steps(page))
    end = "==== end of step ===="
    # The last step ends what the first ones started, also if one between them fails.
    script = f"trap '{asked[-1].command} 2>/dev/null' EXIT\n"
    script += "\n".join(
        f"{{ {step.command}\n{_settle(step.command)}\n}} || exit 1\necho '{end}'" for step in asked
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=env | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    told = done.stdout.split(f"{end}\n")
    for step, output in zip(asked, told, strict=False):
        printed = output.splitlines()
        assert matches(printed, step.printed), f"{step.command}: {printed}\n{done.stderr[-3000:]}"
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(told) == len(asked) + 1


def _settle(command: str) -> str:
    """Wait until a server that goes on in the background answers: a reader types more slowly."""
    found = re.search(r"--port (\d+) .*--daemonize yes", command)
    return (
        f"until redis-cli -p {found[1]} ping > ping.log 2>&1; do sleep 0.05; done" if found else ""
    )
