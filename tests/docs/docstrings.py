"""The docstrings that the reference shows, and the sections of each."""

from __future__ import annotations

import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
DIRECTIVE = re.compile(
    r"^ *\.\. auto(?P<kind>module|class|exception|function|method):: (?P<name>\S+)\n"
    r"(?P<options>(?: +:.*\n)*)",
    re.MULTILINE,
)
SECTION = re.compile(
    r"^(Args|Attributes|Example|Raises|Returns|Yields):\n((?:(?: .*)?\n)+)", re.MULTILINE
)
ENTRY = re.compile(r"^    (\w+):", re.MULTILINE)
"""The name of a parameter or an exception. That of another package has a dot in it."""
BLOCK = re.compile(r"::\n\n((?:(?:        .*)?\n)+)")

ELSEWHERE = ("lockfast.integrations.celery.database.",)
"""Modules that only a Django project can import. The build of the documentation mocks what they
import."""


class Documented(NamedTuple):
    """A public function, method or class."""

    name: str
    thing: Any
    text: str

    def section(self, title: str) -> str:
        """Return the content of a section, or an empty text."""
        return "".join(found[2] for found in SECTION.finditer(self.text) if found[1] == title)

    @property
    def example(self) -> str:
        """The programs of the example section, as one."""
        return "\n".join(map(textwrap.dedent, BLOCK.findall(self.section("Example"))))

    @property
    def parameters(self) -> list[str]:
        """The parameters that its docstring must describe."""
        return [name for name in inspect.signature(self.thing).parameters if name != "self"]


def public() -> dict[str, Documented]:
    """Return what the pages of the reference show, by name."""
    found: dict[str, Documented] = {}
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        owner = ""
        for each in DIRECTIVE.finditer(page.read_text("utf-8")):
            name = f"{owner}.{each['name']}" if each["kind"] == "method" else each["name"]
            owner = name if each["kind"] == "class" else owner
            if name.startswith(ELSEWHERE):
                continue
            shown = _below(name, pkgutil.resolve_name(name), each["options"])
            found |= {one.name: one for one in shown}
    return found


def _below(name: str, thing: Any, options: str) -> Iterator[Documented]:  # noqa: ANN401  # any
    if isinstance(thing, ModuleType):
        if ":no-members:" not in options:
            for key in getattr(thing, "__all__", _own(thing)):
                value = getattr(thing, key)
                shown = inspect.isroutine(value) or inspect.isclass(value)
                if shown and key not in _left_out(options):
                    yield from _below(f"{name}.{key}", value, options)
        return
    yield Documented(name, thing, f"{inspect.getdoc(thing) or ''}\n")
    if inspect.isclass(thing) and ":members:" in options:
        for key, value in inspect.getmembers(thing, inspect.isroutine):
            if isinstance(value, cached_property):  # an attribute, for the reader
                continue
            if _shown(thing, key, value, options):
                yield Documented(f"{name}.{key}", value, f"{inspect.getdoc(value) or ''}\n")


def _left_out(options: str) -> list[str]:
    found = re.search(r":exclude-members: (.+)", options)
    return found[1].split(", ") if found else []


def _own(module: ModuleType) -> list[str]:
    """Return the public names that a module without `__all__` defines itself."""
    return [
        key
        for key, value in vars(module).items()
        if key[0] != "_" and getattr(value, "__module__", "") == module.__name__
    ]


def _shown(owner: type, key: str, value: object, options: str) -> bool:
    """Return whether autodoc shows a method of a class, by the options of the directive."""
    listed = re.search(r":members: (.+)", options)
    if (listed and key not in listed[1]) or key in _left_out(options):
        return False
    if key.startswith("_"):
        return key == "__call__" and key in options
    if ":inherited-members:" in options and not issubclass(owner, (tuple, Enum, Exception)):
        return (getattr(value, "__module__", None) or "").startswith("lockfast")
    return key in vars(owner)
