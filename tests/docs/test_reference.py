"""The reference lists every public name of every public module."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from itertools import pairwise
from pathlib import Path

import pytest

from lockfast import LockfastError, errors
from tests.docs.docstrings import public

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PAGES = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
LISTED = {*public(), *re.findall(r"\.\. auto\w+:: (\S+)", PAGES)}
SHOWN_AS = {"lockfast.testing.contract.suite": "lockfast.testing"}
"""A module whose names readers import from another one."""
INTERNAL = {"lockfast.blocking.client"}
"""A module with `__all__` that no reader imports: `lockfast` has its names."""


def exported() -> dict[str, list[str]]:
    """Return `__all__` of each module that has one, without importing it."""
    found = {}
    for path in sorted((SOURCE / "lockfast").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        for line in ast.parse(path.read_text("utf-8")).body:
            if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__all__":
                found[".".join(parts).removesuffix(".__init__")] = ast.literal_eval(line.value)
    return found


def documented_here(module: str) -> set[str]:
    """Return the constants of a module below which a docstring stands. autodoc lists them."""
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    return {
        ast.unparse(line.targets[0])
        for line, after in pairwise(body)
        if isinstance(line, ast.Assign)
        and isinstance(after, ast.Expr)
        and f".. automodule:: {module}\n   :members:" in PAGES
    }


ERRORS = [
    each
    for each in vars(errors).values()
    if inspect.isclass(each) and issubclass(each, LockfastError)
]
EXPORTED = {module: names for module, names in exported().items() if module not in INTERNAL}


@pytest.mark.parametrize("module", EXPORTED)
def test_the_reference_lists_each_public_name_of_a_module(module: str) -> None:
    shown = SHOWN_AS.get(module, module)
    homes = [shown, *(["lockfast.errors", "lockfast.guarantees"] if module == "lockfast" else [])]
    listed = {name.rpartition(".")[2] for name in LISTED if name.rpartition(".")[0] in homes}
    listed |= documented_here(shown)
    assert not set(EXPORTED[module]) - listed


def test_every_public_module_is_looked_at() -> None:
    assert {"lockfast", "lockfast.aio", "lockfast.port", "lockfast.guards.http"} <= set(EXPORTED)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_the_reference_lists_each_exception_with_its_entry_in_troubleshooting(
    error: type[LockfastError],
) -> None:
    assert f"autoexception:: lockfast.errors.{error.__name__}\n" in PAGES
    entry = f"[`{error.__name__}`](../troubleshooting.md#{error.anchor})"
    assert entry in PAGES or error is LockfastError
