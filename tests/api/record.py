"""The record of the public API, and how a difference to it is shown."""

from __future__ import annotations

import difflib
from pathlib import Path

RECORD = Path(__file__).with_name("record.txt")
WHAT_TO_DO = """\
The public API is no longer the one that tests/api/record.txt has:

{lines}

If you did not mean to change it, undo that. If you did:
1. Add a line to CHANGELOG.md under Unreleased: Added, Changed, Deprecated or Removed. It names each
   of these as code: `name`, or the `Class` that it belongs to.
2. Before you remove or rename a name, deprecate it for one release: see docs/compatibility.md.
3. If the number of a format, the port or the messages changed, see docs/explanation/formats.md.
4. Write the record anew: .venv/bin/python -m tests.api
"""


def recorded() -> list[str]:
    """Return the lines of the record."""
    return RECORD.read_text("utf-8").splitlines()


def changes(before: list[str], after: list[str]) -> list[str]:
    """Return the lines that were removed, with a minus, and those that were added, with a plus."""
    lines = difflib.unified_diff(before, after, lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def explained(lines: list[str]) -> str:
    """Return what somebody reads who has changed the public API."""
    return WHAT_TO_DO.format(lines="\n".join(lines))
