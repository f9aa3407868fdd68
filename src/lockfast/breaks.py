"""A break: who ended another's claim, when and why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from lockfast.plain import plain

LATEST = 253_402_300_799  # seconds since 1970: the last that a calendar has a date for


class Break(NamedTuple):
    """One break, as described by the process that did it."""

    id: str
    """The id of the claim that was ended."""
    ticket: int
    by: str
    """Who ended it: user, host and process."""
    reason: str
    at: float
    """Seconds since 1970, by the clock of that process."""

    def __str__(self) -> str:
        """Describe it in words. Safe to log and to print."""
        known = 0.0 < self.at <= LATEST
        when = f" at {datetime.fromtimestamp(self.at, UTC):%Y-%m-%d %H:%M:%S} UTC" if known else ""
        return plain(f"broken by {self.by}{when}: {self.reason}")
