"""What lockfast itself says to people: on stderr, since stdout belongs to what a command prints."""

from __future__ import annotations

import sys

from lockfast.plain import plain


def say(message: str) -> None:
    """Say one thing, in one line: what others wrote into it cannot make a second."""
    sys.stderr.write(f"lockfast: {plain(message)}\n")
