"""Which changes of the public API since the latest release the changelog does not name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.api.record import changes

RELEASED = Path(__file__).with_name("released.txt")
"""The record as it was at the latest release."""
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def released() -> list[str]:
    """Return the lines of the record at the latest release."""
    return RELEASED.read_text("utf-8").splitlines()


def unreleased(changelog: str) -> str:
    """Return the section of what no release has yet."""
    return changelog.partition("\n## [Unreleased]\n")[2].partition("\n## [")[0]


def unnamed(before: list[str], after: list[str], changelog: str) -> list[str]:
    """Return the changes that the changelog's first section does not name in a code span.

    A class is named by its own name, and what belongs to it by its own name or that of the class.
    """
    words = _words(unreleased(changelog))
    return [line for line in changes(before, after) if not words & set(_names(line))]


def without_notice(before: list[str], after: list[str], changelog: str) -> list[str]:
    """Return what was removed, and not deprecated in an earlier release.

    Only what was unsafe may go at once: it stands under Security in the unreleased section.
    """
    first = unreleased(changelog)
    words = _words(_under("Deprecated", changelog.replace(first, ""))) | _words(
        _under("Security", first)
    )
    left = {_subject(line) for line in after}
    removed = [line for line in changes(before, after) if line[0] == "-"]
    gone = [line for line in removed if _subject(line[1:]) not in left]
    return [line for line in gone if not words & set(_names(line))]


def _under(title: str, changelog: str) -> str:
    """Return the entries below a title, of every section."""
    entries = rf"^### {title}\n(.*?)(?=^##|\Z)"
    return "\n".join(re.findall(entries, changelog, re.MULTILINE | re.DOTALL))


def _words(text: str) -> set[str]:
    spans = re.findall(r"`([^`]+)`", text)
    return {word for span in spans for word in re.findall(r"\w[\w-]*", span)}


def _subject(line: str) -> str:
    """Return what a line is about, without its parameters, its type or its number."""
    return re.split(r"[(:=]", re.sub(r" \d+$", "", line))[0].strip()


def _names(line: str) -> Iterator[str]:
    """Yield what a change can be named by: its own name, then that of its class."""
    words = re.split(r"[(:=]", line[1:])[0].split()
    options = [word for word in words if word.startswith("-")]
    # Not the number of a format, and not the kind of an option's value.
    name = options[-1] if options else [word for word in words if not word.isdigit()][-1]
    *owners, own = name.partition("/")[0].split(".")
    yield own.lstrip("-")
    yield from (owner for owner in owners[-1:] if owner[0].isupper())
