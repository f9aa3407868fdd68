"""What lockfast itself says to people: on stderr, since stdout belongs to what a command prints."""

from __future__ import annotations

import logging
import sys

from lockfast.plain import plain

_NOWHERE = logging.NullHandler()


def keep_log_quiet() -> None:
    """Keep the library's log from stderr: the commands say themselves what happens to a lock."""
    logging.getLogger("lockfast").addHandler(_NOWHERE)


def say(message: str) -> None:
    """Say one thing, in one line: what others wrote into it cannot make a second."""
    sys.stderr.write(f"lockfast: {plain(message)}\n")
