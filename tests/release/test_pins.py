"""The files of pins agree, and are complete: pip takes no other file than those with these hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.page import ROOT

PINS = ROOT / "requirements-dev.txt"
HASHED = ROOT / "requirements-hashed.txt"
TOOLS = ROOT / "requirements-release.txt"
PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)


def name(written: str) -> str:
    return re.sub(r"[-_.]+", "-", written).lower()


def pinned(path: Path) -> dict[str, str]:
    return {name(found): version for found, version in PIN.findall(path.read_text("utf-8"))}


def test_what_is_installed_is_what_is_pinned() -> None:
    assert pinned(HASHED) == pinned(PINS), f"renew {HASHED.name}: its first lines say how"


def test_each_tool_of_a_release_that_is_asked_for_is_pinned_in_that_version() -> None:
    assert pinned(TOOLS.with_suffix(".in")).items() <= pinned(TOOLS).items()


@pytest.mark.parametrize("path", [HASHED, TOOLS], ids=lambda path: path.name)
def test_each_pin_has_hashes_and_no_file_names_an_index(path: Path) -> None:
    text = path.read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    parts = re.split(r"^(?=\S)", "\n".join(lines), flags=re.MULTILINE)[1:]
    assert len(parts) == len(pinned(path)) > 50
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}\b", part) for part in parts)
    assert not re.search(r"https?:|index-url|find-links", text)


def test_what_the_extras_need_is_pinned_because_setup_installs_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = {re.split(r"[\[<>=;]", line)[0] for lines in extras.values() for line in lines}
    assert {name(each) for each in needed} - {"lockfast"} <= pinned(HASHED).keys()
