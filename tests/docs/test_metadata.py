"""What the registry shows about the package is true."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))[
    "project"
]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def test_the_extra_all_has_every_extra_that_users_need() -> None:
    named = {name for line in EXTRAS["all"] for name in re.findall(r"[\w-]+", line)} - {"lockfast"}
    assert named == set(EXTRAS) - {"all", "testing"}
