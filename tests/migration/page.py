"""The programs of a migration page, by the heading that they stand under."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "migrate"
PART = re.compile(
    r"^(?:#+ (?P<heading>[^\n]*)|```python\n(?P<code>.*?)^```)$", re.MULTILINE | re.DOTALL
)
PATIENT = {"timeout=10": "timeout=60", "wait_time=10": "wait_time=60", "'10s'": "'60s'"}
"""A test machine may stand still for ten seconds. What waits must not give up before the test."""


def programs(page: str, swaps: Mapping[str, str]) -> dict[str, str]:
    """Return the Python code of a page under each heading, with the test's servers in it."""
    found: dict[str, str] = {}
    heading = ""
    for part in PART.finditer((PAGES / page).read_text("utf-8")):
        heading = part["heading"] or heading
        if part["code"]:
            found[heading] = found.get(heading, "") + part["code"]
    for old, new in {**PATIENT, **swaps}.items():
        found = {name: code.replace(old, new) for name, code in found.items()}
    return found
