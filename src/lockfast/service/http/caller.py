"""Who sends a request, and what belongs to the request beside its body."""

from __future__ import annotations

from typing import NamedTuple

from lockfast.service.http.presence import Presence


class Caller(NamedTuple):
    """The client of one request."""

    subject: str
    """The name of its API key. Empty if none is needed."""
    key: bytes | None
    """The hash of that key."""
    address: str
    presence: Presence
    idempotency: str = ""
    """The `Idempotency-Key`, if it has one."""
