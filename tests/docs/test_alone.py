"""A reader copies one example of a page. If it has imports of its own, it needs no other one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_snippets import FENCE, ROOT

FOLDERS = tuple(ROOT / "docs" / folder for folder in ("", "engines", "migrate", "service"))
BRIDGES = {
    "redisson.md",
    "shedlock.md",
}  # they build up one program, in which each part has imports
PAGES = [ROOT / "README.md", *(page for folder in FOLDERS for page in sorted(folder.glob("*.md")))]
IMPORTS = re.compile(r"\A(import|from) ")


def examples(page: Path) -> list[str]:
    """Return the examples of a page that have imports of their own."""
    return [text for text in FENCE.findall(page.read_text("utf-8")) if IMPORTS.match(text)]


def undefined(programs: list[str], folder: Path) -> str:
    """Return what ruff finds: names that a program uses and does not define."""
    for number, program in enumerate(programs):
        (folder / f"example_{number}.py").write_text(program, "utf-8")
    only = ("check", "--isolated", "--no-cache", "--select", "F821", "--output-format", "concise")
    found = subprocess.run(
        [sys.executable, "-m", "ruff", *only, str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode in (0, 1), found.stderr
    return found.stdout if found.returncode else ""


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if examples(page) and page.name not in BRIDGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_an_example_that_imports_defines_all_that_it_uses(page: Path, tmp_path: Path) -> None:
    assert not undefined(examples(page), tmp_path)


def test_an_example_that_needs_another_one_is_found(tmp_path: Path) -> None:
    program = "import threading\n\nwith client.lock('x'):\n    print(threading)\n"
    assert "Undefined name `client`" in undefined([program], tmp_path)
