"""The track record: bugs that were found, each with how to see it again and its test."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.robustness.report.tables import plain

PATH = Path(__file__).with_name("track-record.toml")


def track_record(path: Path = PATH) -> str:
    """Write it in Markdown: what the torture found, and what was found before it."""
    said = tomllib.loads(path.read_text("utf-8"))
    found = [
        [
            bug["what"],
            f"`{bug['scenario']}`",
            str(bug["seed"]),
            f"`{bug['fixed']}`",
            _tests(bug["test"]),
        ]
        for bug in said.get("torture", ())
    ]
    before = [
        [bug["what"], bug["by"], f"`{bug['fixed']}`", _tests(bug["test"])]
        for bug in said.get("before", ())
    ]
    parts = ["### Found by the torture\n"]
    parts += (
        [plain(["what was wrong", "scenario", "seed", "fix", "test"], found)]
        if found
        else ["Nothing yet.\n"]
    )
    if before:
        parts += [
            "### Found before, by other means\n",
            plain(["what was wrong", "found by", "fix", "test"], before),
        ]
    return "\n".join(parts)


def _tests(said: str | Iterable[Any]) -> str:
    tests = [said] if isinstance(said, str) else list(said)
    return "<br>".join(f"`{test}`" for test in tests)
