"""The hook of telemetry and of the dashboard: `watcher` is called for every acquisition, loss and
refusal of a guard.

It is one variable of the process and not a setting of each client. While nobody watches, the
variable is None, and the hook costs a single test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lockfast.claims.claim import Claim, Record
from lockfast.errors import Loss
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
_watchers: tuple[Watcher, ...] = ()


def replace(old: Watcher | None, new: Watcher | None) -> None:
    """Put a watcher in the place of another one. None: there was none, or there will be none."""
    global watcher, _watchers  # noqa: PLW0603  # see above
    kept = tuple(each for each in _watchers if each is not old)
    _watchers = kept if new is None else (*kept, new)
    watcher = _Several(_watchers) if len(_watchers) > 1 else next(iter(_watchers), None)


def watches(one: Watcher) -> bool:
    """Return whether a watcher is called."""
    return one in _watchers


def trace() -> str:
    """Return the current span as W3C's `traceparent`, or an empty text."""
    return "" if watcher is None else watcher.trace()


class _Several:
    """Several watchers, each of which receives all events."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers

    def trace(self) -> str:
        return next(filter(None, (each.trace() for each in self._watchers)), "")

    def granted(self, session: Watched, claim: Claim, began: float) -> _Records:
        return _Records([each.granted(session, claim, began) for each in self._watchers])

    def failed(self, session: Watched, shape: Shape, began: float, error: BaseException) -> None:
        for each in self._watchers:
            each.failed(session, shape, began, error)

    def refused(self, session: Watched | None, name: str, template: str) -> None:
        for each in self._watchers:
            each.refused(session, name, template)


class _Records:
    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records

    def ended(self, loss: Loss | None) -> None:
        for each in self._records:
            each.ended(loss)
