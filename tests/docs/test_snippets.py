"""Every Python snippet of the README and the documentation runs, as a reader would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.servers import Postgres, Redis

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACE = "redis://localhost:6379"
DATABASE = "postgresql://localhost/app"
"""Stays as it is: libpq takes the port and the user from the environment."""


def snippets(page: Path) -> str:
    """Join a page's snippets into one program: a page is read from top to bottom."""
    return "\n".join(FENCE.findall(page.read_text("utf-8")))


@pytest.mark.parametrize(
    "page", [p for p in PAGES if snippets(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_the_snippets_of_a_page_run(page: Path) -> None:
    env = dict(os.environ)
    with ExitStack() as stack:
        program = snippets(page).replace(PLACE, stack.enter_context(Redis()).url)
        if DATABASE in program:
            postgres = stack.enter_context(Postgres())
            postgres.command("CREATE DATABASE app")
            env |= {"PGPORT": str(postgres.port), "PGUSER": "postgres"}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=env,
        )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr


def test_the_readme_shows_a_stale_holder_being_told() -> None:
    with Redis() as server:
        program = snippets(ROOT / "README.md").replace(PLACE, server.url)
        said = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
        ).stdout
    assert "another has it" in said
    assert "is not held: its time ran out in this process" in said


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"
