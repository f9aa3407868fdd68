"""From a name back to the template that it was made from. For telemetry: names are too many."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from string import Formatter

OTHER = "other"
REMEMBERED = 16_384  # names whose template is kept


class Templates:
    """What a program says its names look like: `invoice:{number}`, `report`."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Take them in the order in which they are tried."""
        if isinstance(texts, str):
            raise TypeError(f"templates are a list, not one text: [{texts!r}]")
        self._patterns = [(text, _pattern(text)) for text in texts]
        self.of = lru_cache(REMEMBERED)(self._find)
        """Find a name's template."""

    def _find(self, name: str) -> str:
        fitting = (text for text, pattern in self._patterns if pattern.fullmatch(name))
        return next(fitting, OTHER)


def _pattern(text: str) -> re.Pattern[str]:
    parts = []
    for literal, field, *_ in Formatter().parse(text):
        parts.append(re.escape(literal))
        if field is not None:
            parts.append(".+")
    return re.compile("".join(parts), re.DOTALL)
