"""Refusals: servers on which this user may not subscribe, and when to ask them again. No I/O."""

from __future__ import annotations

import logging
from collections.abc import Callable

from lockfast.engines.redis.transport import Address
from lockfast.errors import EngineRefused

log = logging.getLogger("lockfast")
AGAIN = 30.0  # seconds until a server that refused is asked again: it may have got the right


class Refusals:
    """One client's. Each server is logged once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with none."""
        self._now = clock
        self._until: dict[Address, float] = {}

    def note(self, address: Address, channel: str, error: EngineRefused) -> None:
        """Remember that a server refused, and log it if that is news."""
        if address not in self._until:
            # A wrong password needs no other advice than its own.
            lacking = "NOPERM" in str(error)
            log.warning(
                "Redis at %s refuses the subscription to %s: %s. A waiter learns of its grant only "
                "when it looks, every third of its ttl and every 3.3 s at most.%s",
                address,
                channel,
                error,
                " Allow the channels: ACL SETUSER <user> &lockfast:*" if lacking else "",
            )
        self._until[address] = self._now() + AGAIN

    def until(self, address: Address) -> float | None:
        """Return when to ask a server that has refused again, or None if it may be asked now."""
        again = self._until.get(address)
        return again if again is not None and again > self._now() else None

    def accepted(self, address: Address) -> None:
        """Forget a refusal: the subscription was taken."""
        self._until.pop(address, None)
