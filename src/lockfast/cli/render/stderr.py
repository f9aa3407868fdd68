"""Prints lockfast's own messages to stderr, because stdout belongs to the output of commands."""

from __future__ import annotations

import logging
import sys

from lockfast.plain import plain

_NOWHERE = logging.NullHandler()


class _Line(logging.Formatter):
    """Formats an entry of the log as `say` does. A traceback follows as it is."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's
        """Return the first line."""
        return f"lockfast: {plain(record.message)}"


def keep_log_quiet() -> None:
    """Keep the library's log off stderr, because the commands report themselves what happens."""
    logging.getLogger("lockfast").addHandler(_NOWHERE)


def show_log() -> None:
    """Print warnings and errors of the library's log to stderr, for a command that is a server."""
    shown = logging.StreamHandler(sys.stderr)
    shown.setLevel(logging.WARNING)
    shown.setFormatter(_Line())
    logging.getLogger("lockfast").addHandler(shown)


def say(message: str) -> None:
    """Print a message as one line. Line breaks in text from others are escaped."""
    sys.stderr.write(f"lockfast: {plain(message)}\n")
