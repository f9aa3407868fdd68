"""The hook of telemetry: what every acquisition, loss and refusal passes, once. Off, it is None.

It is one variable of the process and no setting of a client, so that what is off costs a test.
"""

from __future__ import annotations

from typing import Protocol

from lockfast.claims.claim import Claim, Record
from lockfast.port import Shape
from lockfast.runtime.base import Runtime
from lockfast.url import Target


class Watched(Protocol):
    """Whose locks they are: a session."""

    runtime: Runtime
    target: Target | None


class Watcher(Protocol):
    """Takes in what happens. It is quick, and never raises."""

    def granted(self, session: Watched, claim: Claim, began: float) -> Record:
        """Note that an acquisition has succeeded; what is given back is told of its end."""
        ...

    def failed(self, session: Watched, shape: Shape, began: float, error: BaseException) -> None:
        """Note that an acquisition has ended without a lease."""

    def refused(self, session: Watched | None, name: str, template: str) -> None:
        """Note that a guard has refused a token; None: that of a lease in another process."""


watcher: Watcher | None = None
