"""What the guards for databases ask of the leases that are passed to them. No driver, no I/O."""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.claims.release import lost
from lockfast.errors import LeaseLost
from lockfast.guards.mark import Holder
from lockfast.primitives.lease import LeaseCore

AFAR = 10.0
"""Seconds for which a transaction may wait or pause if the lease is in another process, because
only that process knows how much of its lease is left."""


def ensure_held(leases: Sequence[Holder]) -> None:
    """Raise `LeaseLost` if a lease of this process is lost. Skip those of other processes."""
    for lease in leases:
        if isinstance(lease, LeaseCore):
            lease.ensure_held()


def remaining(leases: Sequence[Holder]) -> float:
    """Return for how many seconds all of these leases are valid."""
    if not leases:
        raise TypeError("a guard needs a lease")
    return min(each.remaining if isinstance(each, LeaseCore) else AFAR for each in leases)


def ended(leases: Sequence[Holder]) -> LeaseLost | None:
    """Return the error for a lease of this process that is lost. None: all are held."""
    ours = [lease for lease in leases if isinstance(lease, LeaseCore)]
    over = [lease for lease in ours if lease.loss is not None]
    return lost(over[0].claim) if over else None
