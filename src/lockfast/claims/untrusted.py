"""JSON that anybody may have written: a payload, a record. What is read from it is bounded."""

from __future__ import annotations

import json
from functools import lru_cache

LARGEST = 65_536  # bytes: what is larger is not read


def parsed(raw: bytes) -> dict[str, object]:
    """Parse it; nothing if it is too big, or no JSON object.

    The size is checked first: parsing 30 MB takes a second. A hundred thousand brackets end in a
    RecursionError, a number of 5,000 digits in a ValueError, so every Exception counts.
    """
    return _parsed(raw) if len(raw) <= LARGEST else {}


@lru_cache(8)  # one payload is read in three ways, one after another
def _parsed(raw: bytes) -> dict[str, object]:
    try:
        said = json.loads(raw)
    except Exception:  # noqa: BLE001  # see above
        return {}
    return said if isinstance(said, dict) else {}


def text(said: dict[str, object], key: str, longest: int, otherwise: str) -> str:
    """Return a text, cut to its length. Halves of surrogate pairs, which JSON can write and no
    encoding can, are replaced: a log handler would fail on them.
    """
    found = said.get(key, otherwise)
    if not isinstance(found, str):
        return otherwise
    return found[:longest].encode(errors="replace").decode()


def number(said: dict[str, object], key: str, lowest: float, highest: float) -> float:
    """Return a number within its range, else 0: Infinity and NaN are in no range."""
    found = said.get(key)
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return 0
    return found if lowest <= found <= highest else 0
