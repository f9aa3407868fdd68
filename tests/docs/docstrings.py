"""The docstrings of the public API: what the reference shows, and the sections of each."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SHOWN = re.compile(
    r"^ *\.\. auto(?P<kind>module|class|function|method):: (?P<name>\S+)\n(?P<options>(?: +:.*\n)*)",
    re.MULTILINE,
)
SECTION = re.compile(
    r"^(Args|Attributes|Example|Raises|Returns|Yields):\n((?:(?: .*)?\n)+)", re.MULTILINE
)
ENTRY = re.compile(r"^    (\w+):", re.MULTILINE)
BLOCK = re.compile(r"::\n\n((?:(?:        .*)?\n)+)")


class Documented(NamedTuple):
    """A public function, method or class."""

    name: str
    thing: Any
    text: str

    def section(self, title: str) -> str:
        """Return the content of a section, or an empty text."""
        return "".join(found[2] for found in SECTION.finditer(self.text) if found[1] == title)

    @property
    def examples(self) -> list[str]:
        """The programs of the example section."""
        return [inspect.cleandoc(block) for block in BLOCK.findall(self.section("Example"))]

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters that its docstring must describe."""
        given = inspect.signature(self.thing).parameters.values()
        return [each for each in given if each.name != "self" and not each.name.startswith("_")]


def public() -> dict[str, Documented]:
    """Return what the pages of the reference show, by name."""
    found: dict[str, Documented] = {}
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        owner = ""
        for each in SHOWN.finditer(page.read_text("utf-8")):
            name = each["name"]
            if each["kind"] == "class":
                owner = name
            elif each["kind"] == "method":
                name = f"{owner}.{name}"
            found |= {one.name: one for one in _below(name, each["options"])}
    return found


def _below(name: str, options: str) -> Iterator[Documented]:
    thing = pkgutil.resolve_name(name)
    if isinstance(thing, ModuleType):
        if ":no-members:" not in options:
            listed = getattr(thing, "__all__", None) or [
                key
                for key, value in vars(thing).items()
                if key[0] != "_" and getattr(value, "__module__", "") == name
            ]
            for key in listed:
                if inspect.isroutine(getattr(thing, key)) or inspect.isclass(getattr(thing, key)):
                    yield from _below(f"{name}.{key}", ":members:")
        return
    yield Documented(name, thing, f"{inspect.getdoc(thing) or ''}\n")
    if inspect.isclass(thing) and ":members:" in options:
        for key, value in inspect.getmembers(thing, inspect.isroutine):
            if _shown(thing, key, value, options):
                yield Documented(f"{name}.{key}", value, f"{inspect.getdoc(value) or ''}\n")


def _shown(owner: type, key: str, value: Callable[..., object], options: str) -> bool:
    if key.startswith("_"):
        return key == "__call__" and "__call__" in options
    if ":inherited-members:" in options and not issubclass(owner, (tuple, Enum, Exception)):
        return (getattr(value, "__module__", None) or "").startswith("lockfast")
    return key in vars(owner)
