"""Validation of lock names. A name is any Unicode text of 1 to 512 bytes in UTF-8."""

from __future__ import annotations

LONGEST = 512


def size_of(text: str, what: str) -> int:
    """Return the length of `text` in bytes of UTF-8. `what` names the value in error messages.

    Raises `ValueError` for a lone surrogate, which has no encoding. Python puts those into file
    names and arguments that it cannot decode.
    """
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str, not {type(text).__name__}")
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} must be valid Unicode text: {text!r}") from error


def checked(name: str) -> str:
    """Return `name` unchanged. Raise `TypeError` or `ValueError` if it is not a valid lock name."""
    size = size_of(name, "a lock's name")
    if not 1 <= size <= LONGEST:
        raise ValueError(f"a lock's name must have 1 to {LONGEST} bytes in UTF-8, not {size}")
    return name
