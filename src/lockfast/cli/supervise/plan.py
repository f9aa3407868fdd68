"""When a command must be told to end so that nothing of it is left when the lease ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from lockfast.port import LONGEST, SHORTEST

MARGIN = 2.0  # seconds from KILL to the end of the lease: for the kernel, and for a busy machine
GRACE = 5.0  # seconds from TERM to KILL


@dataclass(frozen=True, slots=True)
class Plan:
    """TERM, grace, KILL, margin, and only then the end of the lease. It knows no clock."""

    ttl: float
    grace: float
    margin: float

    @classmethod
    def of(cls, ttl: float, grace: float | None = None) -> Self:
        """Make the plan of a lease.

        A lease that is renewed in time never has less than half of its ttl left. The plan must fit
        into that half, or it would end a command whose lease is well.
        """
        if not SHORTEST <= ttl <= LONGEST:
            raise ValueError(f"--ttl is {SHORTEST:g} to {LONGEST:.0f} seconds, not {ttl:g}")
        margin = min(MARGIN, ttl / 6.0)
        longest = ttl / 2.0 - margin
        if grace is None:
            grace = min(GRACE, ttl / 6.0)
        if not 0.0 <= grace <= longest:
            raise ValueError(
                f"--grace is 0 to {longest:g} seconds with a ttl of {ttl:g}, not {grace:g}: "
                "TERM and KILL come before the lease ends, so take a longer --ttl"
            )
        return cls(ttl, grace, margin)

    def freeze_at(self, until: float) -> float:
        """Tell when a lease that is good until then has no longer been renewed as it should be."""
        return until - self.ttl / 2.0

    def term_at(self, until: float) -> float:
        """Tell when to send TERM."""
        return until - self.margin - self.grace

    def kill_at(self, until: float) -> float:
        """Tell when to send KILL."""
        return until - self.margin

    def overdue_at(self, until: float) -> float:
        """Tell when somebody else must do it, because KILL was not sent."""
        return until - self.margin * 0.75
