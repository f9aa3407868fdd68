"""The telemetry hook: `watcher` is called for every acquisition, loss and refusal of a guard.

It is one variable of the process and not a setting of each client. While telemetry is off, the
variable is None, and the hook costs a single test.
"""

from __future__ import annotations

from typing import Protocol

from lockfast.claims.claim import Claim, Record
from lockfast.port import Shape
from lockfast.runtime.base import Runtime
from lockfast.url import Target


class Watched(Protocol):
    """The part of a session that a watcher uses."""

    runtime: Runtime
    target: Target | None


class Watcher(Protocol):
    """Receives the events. Its methods must be quick, and must never raise."""

    def trace(self) -> str:
        """Return the current span as W3C's `traceparent`, or an empty text if there is none."""
        ...

    def granted(self, session: Watched, claim: Claim, began: float) -> Record:
        """Record a successful acquisition, and return the record whose `ended` is called later."""
        ...

    def failed(self, session: Watched, shape: Shape, began: float, error: BaseException) -> None:
        """Record an acquisition that ended without a lease."""

    def refused(self, session: Watched | None, name: str, template: str) -> None:
        """Record that a guard rejected a token; without a session if the lease is elsewhere."""


watcher: Watcher | None = None


def trace() -> str:
    """Return the current span as W3C's `traceparent`, or an empty text."""
    return "" if watcher is None else watcher.trace()
