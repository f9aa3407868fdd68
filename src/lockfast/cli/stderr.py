"""What lockfast itself says to people: on stderr, since stdout belongs to what a command prints."""

from __future__ import annotations

import sys


def say(message: str) -> None:
    """Say one thing, in a line of its own."""
    sys.stderr.write(f"lockfast: {message}\n")
