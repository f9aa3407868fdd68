"""Finds the template that a name was made from. Telemetry shows it: there are too many names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from string import Formatter

OTHER = "other"
REMEMBERED = 16_384  # names whose template is cached


class Templates:
    """The templates that a program declares for its names, such as `invoice:{number}`, `report`."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Prepare the templates. `of` tries them in this order."""
        if isinstance(texts, str):
            raise TypeError(f"templates must be a list, not a str: [{texts!r}]")
        self._patterns = [(text, _literals(text)) for text in texts]
        self.of = lru_cache(REMEMBERED)(self._find)
        """Return the first template that fits a name, or `OTHER`. Cached."""

    def _find(self, name: str) -> str:
        fitting = (text for text, literals in self._patterns if _fits(literals, name))
        return next(fitting, OTHER)


def _literals(text: str) -> list[str]:
    """Return the literal texts before, between and after the fields of a template."""
    literals = [""]
    for literal, field, *_ in Formatter().parse(text):
        literals[-1] += literal
        if field is not None:
            literals.append("")
    return literals


def _fits(literals: Sequence[str], name: str) -> bool:
    """Return whether a name has these literals, with at least one character in place of each field.

    Each literal is matched at the first place where it occurs. If the name fits in any way, it fits
    in this one too. A regular expression would also try all other ways, and a name that a user
    chose could make that take minutes.
    """
    first, *between = literals
    if not between:
        return name == first
    last = between.pop()
    if not name.startswith(first) or not name.endswith(last):
        return False
    place = len(first)
    for literal in between:
        found = name.find(literal, place + 1)
        if found < 0:
            return False
        place = found + len(literal)
    return place < len(name) - len(last)
