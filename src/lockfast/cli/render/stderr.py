"""Prints lockfast's own messages to stderr, because stdout belongs to the output of commands."""

from __future__ import annotations

import logging
import sys

from lockfast.plain import plain

_NOWHERE = logging.NullHandler()


def keep_log_quiet() -> None:
    """Keep the library's log off stderr, because the commands report themselves what happens."""
    logging.getLogger("lockfast").addHandler(_NOWHERE)


def say(message: str) -> None:
    """Print a message as one line. Line breaks in text from others are escaped."""
    sys.stderr.write(f"lockfast: {plain(message)}\n")
