"""Sphinx configuration."""

import tomllib
from pathlib import Path

# The version is written once, in pyproject.toml.
_pyproject = Path(__file__).parent.parent / "pyproject.toml"
_project = tomllib.loads(_pyproject.read_text(encoding="utf-8"))["project"]

project = _project["name"]
release = _project["version"]
version = release
author = "The lockfast authors"
project_copyright = author

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
# A reference that leads nowhere is an error: `make docs` turns warnings into failures.
nitpicky = True
# So that [text](page.md#section) links work.
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"{project} {release}"
