"""The record of a break: who took a lock away from its holder by force, when and why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from lockfast.plain import plain

LATEST = 253_402_300_799  # seconds since 1970: the last instant that `datetime` can represent


class Break(NamedTuple):
    """One break, as described by the process that broke the lock."""

    id: str
    """The id of the lease that was broken."""
    ticket: int
    """The ticket of that lease. For an exclusive lock it is the fencing token."""
    by: str
    """Who broke it: user, host and process id."""
    reason: str
    """The reason that was given to `revoke`."""
    at: float
    """When, in seconds since 1970, by the clock of the process that broke it."""

    def __str__(self) -> str:
        """Return the break in words. The text is safe to log and to print."""
        known = 0.0 < self.at <= LATEST
        when = f" at {datetime.fromtimestamp(self.at, UTC):%Y-%m-%d %H:%M:%S} UTC" if known else ""
        return plain(f"broken by {self.by}{when}: {self.reason}")
