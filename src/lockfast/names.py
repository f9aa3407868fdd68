"""Names of resources: any Unicode text of 1 to 512 bytes. Checked here, once, at the door."""

from __future__ import annotations

LONGEST = 512


def checked(name: str) -> str:
    """Return `name` unchanged, or say what is wrong with it."""
    if not isinstance(name, str):
        raise TypeError(f"a lock's name is a str, not {type(name).__name__}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"a lock's name must be valid Unicode text: {name!r}") from error
    if not 1 <= size <= LONGEST:
        raise ValueError(f"a lock's name has 1 to {LONGEST} bytes in UTF-8, this one has {size}")
    return name
