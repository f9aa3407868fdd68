"""Computes when to send TERM and KILL, so that a command has ended when its lease ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from lockfast.port import LONGEST, SHORTEST

MARGIN = 2.0  # seconds from KILL to the end of the lease: the kernel and a busy machine take time
GRACE = 5.0  # seconds from TERM to KILL


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of events at the end of a lease: TERM, grace, KILL, margin, end of the lease.

    It reads no clock. `until` is the instant at which the lease ends.
    """

    ttl: float
    grace: float
    margin: float

    @classmethod
    def of(cls, ttl: float, grace: float | None = None) -> Self:
        """Return the plan for a lease, or raise `ValueError` if `ttl` or `grace` is not possible.

        A lease that is renewed in time never has less than half of its ttl left. The plan must fit
        into that half, or lockfast would end a command although its lease is renewed.
        """
        if not SHORTEST <= ttl <= LONGEST:
            raise ValueError(f"--ttl must be {SHORTEST:g} to {LONGEST:.0f} seconds, not {ttl:g}")
        margin = min(MARGIN, ttl / 6.0)
        longest = ttl / 2.0 - margin
        if grace is None:
            grace = min(GRACE, ttl / 6.0)
        if not 0.0 <= grace <= longest:
            raise ValueError(
                f"--grace must be 0 to {longest:g} seconds with a ttl of {ttl:g}, not {grace:g}: "
                "KILL must come before the lease ends. For a longer grace, use a longer --ttl"
            )
        return cls(ttl, grace, margin)

    def freeze_at(self, until: float) -> float:
        """Return when to stop the command: a renewal should have come before that."""
        return until - self.ttl / 2.0

    def term_at(self, until: float) -> float:
        """Return when to send TERM."""
        return until - self.margin - self.grace

    def kill_at(self, until: float) -> float:
        """Return when to send KILL."""
        return until - self.margin

    def overdue_at(self, until: float) -> float:
        """Return when lockfast must kill the command itself, because the watchdog has not."""
        return until - self.margin * 0.75
