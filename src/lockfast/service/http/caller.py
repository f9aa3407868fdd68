"""Who sends an HTTP request, and what belongs to the request beside its body."""

from __future__ import annotations

from typing import NamedTuple

from lockfast.service import caller
from lockfast.service.http.presence import Presence


class Caller(NamedTuple):
    """The client of one request."""

    who: caller.Caller
    presence: Presence
    idempotency: str = ""
    """The `Idempotency-Key`, if it has one."""

    @property
    def subject(self) -> str:
        """Whose handles and `Idempotency-Key`s these are. Empty: everybody is admitted."""
        return self.who.name
