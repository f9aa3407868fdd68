"""Names of resources: any Unicode text of 1 to 512 bytes. Checked here, once, at the door."""

from __future__ import annotations

LONGEST = 512


def size_of(text: str, what: str) -> int:
    """Return how many bytes a text has in UTF-8. A text with half a character has none: Python puts
    that into file names and arguments that it cannot decode.
    """
    if not isinstance(text, str):
        raise TypeError(f"{what} is a str, not {type(text).__name__}")
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} must be valid Unicode text: {text!r}") from error


def checked(name: str) -> str:
    """Return `name` unchanged, or say what is wrong with it."""
    size = size_of(name, "a lock's name")
    if not 1 <= size <= LONGEST:
        raise ValueError(f"a lock's name has 1 to {LONGEST} bytes in UTF-8, this one has {size}")
    return name
