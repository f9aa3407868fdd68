"""Remembers which servers refused a subscription, and when to try them again. No I/O."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from lockfast.engines.redis.transport import Address
from lockfast.errors import EngineRefused

log = logging.getLogger("lockfast")
AGAIN = 30.0  # seconds until the next attempt: an administrator may have granted the right
LOGIN = re.compile(r"\b(NOAUTH|WRONGPASS) ")


class Refusals:
    """The servers that refuse a client's subscription. Each is logged once, until it accepts."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start without a refusal."""
        self._now = clock
        self._until: dict[Address, float] = {}
        self._logged_in: set[Address] = set()

    def note(self, address: Address, channel: str, error: EngineRefused) -> None:
        """Record that a server refused the subscription, and log its first refusal."""
        # With a password that never worked every request raises the same error. A warning about
        # the subscription would only lead away from it.
        told = address in self._logged_in or not LOGIN.search(str(error))
        if told and address not in self._until:
            # The advice on ACLs helps if a right is missing, but not if the password is wrong.
            lacking = "NOPERM" in str(error)
            log.warning(
                "Redis at %s rejects the subscription to %s: %s. Waiters poll instead, every third "
                "of their ttl and at least every 3.3 s.%s",
                address,
                channel,
                error,
                " Allow the channels: ACL SETUSER <user> &lockfast:*" if lacking else "",
            )
        self._until[address] = self._now() + AGAIN

    def until(self, address: Address) -> float | None:
        """Return when to subscribe again after a refusal, or None if that may be done now."""
        again = self._until.get(address)
        return again if again is not None and again > self._now() else None

    def accepted(self, address: Address) -> None:
        """Forget the refusal of a server that has accepted the subscription."""
        self._until.pop(address, None)
        self._logged_in.add(address)
