"""The door: what both middlewares decide, written once.

One process serialises: a higher token raises the mark at once, then waits until the requests of
those whom the mark now refuses have ended. So no stale write is under way when its own begins.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, MutableMapping
from typing import Protocol

from lockfast.errors import StaleToken
from lockfast.guards.http import problem
from lockfast.guards.http.header import parse
from lockfast.guards.http.problem import Problem
from lockfast.guards.mark import Mark, Shown, admit
from lockfast.runtime.base import Event, now

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class Refused(Exception):
    """A request that is turned away, with its response. It never leaves a middleware."""

    def __init__(self, response: Problem) -> None:
        """Keep the response."""
        self.response = response
        super().__init__(response.status.phrase)


class Events(Protocol):
    """What the door needs of a colour."""

    def event(self) -> Event:
        """Make an event."""


class Door:
    """Who may pass: one for each application.

    `resource(method, path)` names the lock that guards a request, or None. The server says which:
    whoever chose the name could choose a mark that lets it in.

    `marks` decides what is promised:

    - None: nothing is checked here. The handler finds what was shown, and runs a guard in its own
      transaction; that is the strongest form. Its `StaleToken` becomes the 412.
    - a `MarkFolder`: one process serves the resource; holders are serialised, stale ones are
      refused, also after a restart.
    - a dict: the same, but a restart or a second process forgets. Advisory.

    `patience`: seconds for which a new holder waits for requests of earlier ones.
    """

    def __init__(
        self,
        resource: Callable[[str, str], str | None],
        *,
        marks: MutableMapping[str, Mark] | None,
        patience: float = 10.0,
    ) -> None:
        """Begin with nobody inside."""
        self._resource = resource
        self._marks = marks
        self._patience = patience
        self._lock = threading.Lock()
        self._inside: defaultdict[str, list[Shown]] = defaultdict(list)
        self._waiting: defaultdict[str, list[Event]] = defaultdict(list)

    def look(self, method: str, path: str, values: list[str]) -> Shown | None:
        """Read the header of a request; None if nothing guards it, or it only looks."""
        name = self._resource(method, path)
        if name is None:
            return None
        if not values:
            if method in SAFE:
                return None
            raise Refused(problem.missing(name))
        try:
            at = parse(", ".join(values))
        except ValueError as error:
            raise Refused(problem.malformed(str(error))) from error
        if at.name != name:
            raise Refused(problem.malformed(f"a token of {at.name!r} was shown to {name!r}"))
        return at

    async def enter(self, at: Shown, events: Events) -> None:
        """Raise the mark, and wait until nobody is inside whom it refuses."""
        if self._marks is None:
            return
        until = now() + self._patience
        while True:
            with self._lock:
                mark = self._marks.get(at.name)
                raised = admit(mark, at)  # each time: a higher one may have come meanwhile
                if raised != mark:
                    self._marks[at.name] = raised
                if all(_admitted(raised, each) for each in self._inside[at.name]):
                    self._inside[at.name].append(at)
                    return
                event = events.event()
                self._waiting[at.name].append(event)
            if not await event.wait(until):
                raise Refused(problem.busy(at.name, self._patience))

    def leave(self, at: Shown) -> None:
        """End a request, and let those look again who wait for it."""
        if self._marks is None:
            return
        with self._lock:
            self._inside[at.name].remove(at)
            if not self._inside[at.name]:
                del self._inside[at.name]
            for event in self._waiting.pop(at.name, ()):
                event.set()


def _admitted(mark: Mark, at: Shown) -> bool:
    try:
        admit(mark, at)
    except StaleToken:
        return False
    return True
