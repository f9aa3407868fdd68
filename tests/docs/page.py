"""What a page asks its reader to install, to save, and to type."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.docs.tutorial import Step

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^```(?P<kind>console|python|\{literalinclude\} (?P<source>\S+)|\{code-block\} \w+)\n"
    r"(?P<options>(?::\w+:[^\n]*\n)*)(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
CAPTION = re.compile(r"^:caption: (\S+)$", re.MULTILINE)
INSTALL = "pip install "
LOGGED = re.compile(
    r"the lease on '[^']+' \(token \d+\) is lost: .*|'[^']+' was (taken|broken) from .*"
    r"|the event loop was blocked for [\d.]+ s or more\. .*"
)
"""What lockfast logs of a loss, and of a blocked event loop.

Python prints it in a program that configures no logging.
"""


class Page(NamedTuple):
    """One page, read."""

    path: Path
    packages: frozenset[str]
    """What its `pip install` lines name."""
    files: dict[str, str]
    """What the reader saves: every example that has a file name as its caption."""
    snippets: str
    """Its Python snippets, from top to bottom, as one program."""
    steps: list[Step]
    """The other commands that the reader types."""


def read(path: Path) -> Page:
    """Read a page."""
    packages: set[str] = set()
    files: dict[str, str] = {}
    snippets: list[str] = []
    steps: list[Step] = []
    for block in BLOCK.finditer(path.read_text("utf-8")):
        caption = CAPTION.search(block["options"])
        if block["kind"] == "python":
            snippets.append(block["text"])
        elif block["kind"] == "console":
            for step in _steps(block["text"]):
                if step.command.startswith(INSTALL):
                    words = shlex.split(step.command.removeprefix(INSTALL), comments=True)
                    packages |= {word for word in words if not word.startswith("-")}
                else:
                    steps.append(step)
        elif caption is not None:
            source = block["source"]
            text = (path.parent / source).read_text("utf-8") if source else block["text"]
            files[caption[1]] = text
    return Page(path, frozenset(packages), files, "\n".join(snippets), steps)


def complaints(stderr: str) -> str:
    """Give what a program wrote to stderr, but for what its page shows: a loss, a blocked loop."""
    return "\n".join(line for line in stderr.splitlines() if not LOGGED.fullmatch(line))


def _steps(block: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *printed = part.rstrip("\n").split("\n")
        while command.endswith("\\"):
            command = f"{command[:-1]}{printed.pop(0).strip()}"
        yield Step(command, printed)
