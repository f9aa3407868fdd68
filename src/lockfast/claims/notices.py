"""Notification of holders: callbacks and events for a loss, for waiters and for a lease's end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from lockfast.claims.claim import Claim
from lockfast.errors import Loss
from lockfast.runtime.base import Event
from lockfast.runtime.mutex import Mutex

T = TypeVar("T")


class Notices:
    """The callbacks and events of all claims. A base class of the table, which shares its mutex."""

    def __init__(self) -> None:
        """Begin without notifications, and without a heart to rouse."""
        self.rouse: Callable[[], object] = bool
        """Makes the heart look at the schedule again."""
        self._lock = Mutex()
        self._lost: list[Claim] = []
        self._dropped: list[Claim] = []
        self._wanted: list[Claim] = []

    def inside(self) -> bool:
        """Return whether the caller has interrupted a method of the table in this thread."""
        return self._lock.inside()

    async def aside(self, wait: Coroutine[Any, Any, T]) -> T:
        """Await `wait` with the mutex released, because the heart needs the table to end it."""
        return await self._lock.aside(wait)

    def on_lost(self, claim: Claim, callback: Callable[[], object]) -> None:
        """Make the heart call `callback` when the lease is lost, or now if it already is."""
        with self._lock:
            claim.callbacks += (callback,)
            if claim.loss not in (None, Loss.RELEASED, Loss.FOREIGN):
                self._lost.append(claim)
                self.rouse()

    def off_lost(self, claim: Claim, callback: Callable[[], object]) -> None:
        """Remove a callback of `on_lost`."""
        with self._lock:
            claim.callbacks = tuple(each for each in claim.callbacks if each != callback)

    def on_contended(self, claim: Claim, callback: Callable[[], object]) -> None:
        """Make the heart call `callback` once, when another claim waits behind the lease."""
        with self._lock:
            claim.wanted += (callback,)
            if claim.behind:
                self._wanted.append(claim)
                self.rouse()

    def on_end(self, claim: Claim, event: Event) -> None:
        """Set `event` when the lease is lost or released, or at once if it already is."""
        with self._lock:
            if claim.loss is None:
                claim.watchers += (event,)
            else:
                event.set()

    def off_end(self, claim: Claim, event: Event) -> None:
        """Remove an event of `on_end`, when its waiter has left."""
        with self._lock:
            claim.watchers = tuple(each for each in claim.watchers if each is not event)

    def _tell(self, claim: Claim) -> None:
        for watcher in claim.watchers:
            watcher.set()
