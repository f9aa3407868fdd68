"""What the heart is to tell the holders of a client: losses, waiters, and the end of a lease."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.claims.claim import Claim
from lockfast.errors import Loss
from lockfast.runtime.base import Event
from lockfast.runtime.mutex import Mutex


class Notices:
    """The callbacks and events of all claims. A part of the table: see there for its mutex."""

    def __init__(self) -> None:
        """Begin with nothing to tell, and nobody to rouse."""
        self.rouse: Callable[[], object] = bool
        """Makes the heart look at the timetable again."""
        self._lock = Mutex()
        self._lost: list[Claim] = []
        self._dropped: list[Claim] = []
        self._wanted: list[Claim] = []

    def on_lost(self, claim: Claim, callback: Callable[[], object]) -> None:
        """Have the heart call `callback` when the lease is lost, also if it already was."""
        with self._lock:
            claim.callbacks += (callback,)
            if claim.loss not in (None, Loss.RELEASED, Loss.FOREIGN):
                self._lost.append(claim)
                self.rouse()

    def off_lost(self, claim: Claim, callback: Callable[[], object]) -> None:
        """Call that callback no more."""
        with self._lock:
            claim.callbacks = tuple(each for each in claim.callbacks if each != callback)

    def on_contended(self, claim: Claim, callback: Callable[[], object]) -> None:
        """Have the heart call `callback` once somebody waits behind the lease."""
        with self._lock:
            claim.wanted += (callback,)
            if claim.behind:
                self._wanted.append(claim)
                self.rouse()

    def on_end(self, claim: Claim, event: Event) -> None:
        """Set `event` when the lease is lost or released, or at once if it was."""
        with self._lock:
            if claim.loss is None:
                claim.watchers += (event,)
            else:
                event.set()

    def off_end(self, claim: Claim, event: Event) -> None:
        """Set that event no more: whoever waited for it has left."""
        with self._lock:
            claim.watchers = tuple(each for each in claim.watchers if each is not event)

    def _tell(self, claim: Claim) -> None:
        for watcher in claim.watchers:
            watcher.set()
