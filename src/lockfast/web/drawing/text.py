"""Text in a picture, where nothing wraps."""

from __future__ import annotations

from unicodedata import east_asian_width

from lockfast.plain import plain


def fitting(text: str, columns: int) -> str:
    """Return a text that is at most so many columns wide. A wide character takes two."""
    text = plain(text)
    room = columns
    for place, each in enumerate(text):
        room -= 2 if east_asian_width(each) in {"W", "F"} else 1
        if room < 0:
            return f"{text[: max(place - 1, 0)]}…"
    return text
