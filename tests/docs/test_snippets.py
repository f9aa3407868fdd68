"""Every Python snippet of the README and the documentation runs, as a reader would run it."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.servers import Redis
from tests.servers.redlock import url_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACE = "redis://localhost:6379"
SET = "redlock://h1,h2,h3,h4,h5"


def snippets(page: Path) -> str:
    """Join a page's snippets into one program: a page is read from top to bottom."""
    return "\n".join(FENCE.findall(page.read_text("utf-8")))


@pytest.mark.parametrize(
    "page", [p for p in PAGES if snippets(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_the_snippets_of_a_page_run(page: Path) -> None:
    with Redis() as server, ExitStack() as stack:
        program = snippets(page).replace(PLACE, server.url)
        if SET in program:
            nodes = [stack.enter_context(Redis()) for _ in range(5)]
            program = program.replace(SET, url_of(*nodes))
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
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
