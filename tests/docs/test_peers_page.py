"""The page on peers: every cell about another library names the version and the file."""

from __future__ import annotations

import re
from importlib.metadata import files, version
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "peers.md"


def rows(text: str) -> list[list[str]]:
    """Give the rows of the tables in a text, without their heads."""
    lines = re.findall(r"^\| (?!---|library)(.*) \|$", text, re.MULTILINE)
    return [line.split(" | ") for line in lines]


LIST, _, REST = PAGE.read_text("utf-8").partition("## Fencing tokens")
READ = {name.split(" ")[0]: (at, where) for name, at, where in rows(LIST)}
"""What was read: at which version, and in which files."""
ON_PYPI = {"redis-py": "redis"}


def test_nine_libraries_were_read() -> None:
    assert len(READ) == 9


@pytest.mark.parametrize("row", rows(REST), ids=lambda row: row[0])
def test_a_cell_names_the_version_and_the_file_it_was_read_from(row: list[str]) -> None:
    if row[0] == "lockfast":
        return
    found = re.fullmatch(r"([\w-]+) (\S+), `([^`]+)`", row[0])
    assert found, row[0]
    name, at, where = found.groups()
    versions, paths = READ[name]
    assert at in versions
    assert where in paths


@pytest.mark.parametrize("name", ["redis-py", "python-redis-lock", "pottery", "kazoo", "aetcd"])
def test_what_is_installed_here_is_what_was_read(name: str) -> None:
    package = ON_PYPI.get(name, name)
    at, where = READ[name]
    assert version(package) == at
    assert where.strip("`") in {str(path) for path in files(package) or ()}
