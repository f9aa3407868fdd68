"""Reading of JSON from untrusted writers (payloads, records). All returned values are bounded."""

from __future__ import annotations

import json
from functools import lru_cache

LARGEST = 65_536  # bytes: larger texts are not parsed


def parsed(raw: bytes) -> dict[str, object]:
    """Return a JSON object as a dict, or an empty dict if it is too big or not a JSON object.

    The size is checked first, because parsing 30 MB takes a second. Every `Exception` is caught: a
    hundred thousand brackets raise a RecursionError, a number of 5,000 digits a ValueError.
    """
    return _parsed(raw) if len(raw) <= LARGEST else {}


@lru_cache(8)  # three functions of `payload` parse the same text, one after another
def _parsed(raw: bytes) -> dict[str, object]:
    try:
        said = json.loads(raw)
    except Exception:  # noqa: BLE001  # see above
        return {}
    return said if isinstance(said, dict) else {}


def text(said: dict[str, object], key: str, longest: int, otherwise: str) -> str:
    """Return the text at `key`, cut to `longest` characters; `otherwise` if it is not a text.

    Lone surrogates, which JSON can express and UTF-8 cannot, are replaced. A log handler would fail
    to encode them.
    """
    found = said.get(key, otherwise)
    if not isinstance(found, str):
        return otherwise
    return found[:longest].encode(errors="replace").decode()


def number(said: dict[str, object], key: str, lowest: float, highest: float) -> float:
    """Return the number at `key` if it is within the range, else 0 (also for Infinity and NaN)."""
    found = said.get(key)
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return 0
    return found if lowest <= found <= highest else 0
