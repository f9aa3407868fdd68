"""Sphinx configuration."""

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

# The version is written once, in pyproject.toml.
_pyproject = Path(__file__).parent.parent / "pyproject.toml"
_project = tomllib.loads(_pyproject.read_text(encoding="utf-8"))["project"]

project = _project["name"]
release = _project["version"]
version = release
author = "The lockfast authors"
project_copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
# A reference that leads nowhere is an error: `make docs` turns warnings into failures.
nitpicky = True
# But for types in signatures: those of other projects (their inventories would have to be fetched
# for every build), and our own that are not public.
nitpick_ignore_regex = [
    ("py:class", r"(?!lockfast\.).*"),
    ("py:class", r"lockfast\.(?!Client|Lease|Lock|aio|errors|guarantees).*"),
]
# In docstrings `x` is code, as it is in Markdown.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
# So that [text](page.md#section) links work.
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"{project} {release}"


def setup(app: Sphinx) -> None:
    """Show what our docstrings say of arguments, one per line, as a list."""
    app.connect("autodoc-process-docstring", _listed)


def _listed(*args: object) -> None:
    lines = args[-1]
    assert isinstance(lines, list)  # noqa: S101  # what Sphinx hands over
    made: list[str] = []
    within = False
    for line in lines:
        starts = re.match(r"`[\w=]+`: ", line) is not None
        if starts and not within:
            made.append("")  # a list begins after a paragraph
        within = starts or (within and bool(line))
        made.append(("* " if starts else "  ") + line if within else line)
    lines[:] = made
