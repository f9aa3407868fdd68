"""The door: what both middlewares decide, written once.

One process serialises: a higher token raises the mark at once, then waits until the requests of
those whom the mark now refuses have ended. So no stale write is under way when its own begins.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol, TypeAlias

from lockfast.errors import EngineError, StaleToken, Unguarded
from lockfast.guards.http import problem
from lockfast.guards.http.header import parse
from lockfast.guards.http.problem import Problem
from lockfast.guards.mark import Mark, Shown, admit, refused
from lockfast.runtime.base import Event, now

log = logging.getLogger("lockfast")
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
IDENTITY = ("user", "auth", "REMOTE_USER")
"""What authentication leaves in a scope (ASGI) or an environ (WSGI)."""
Request: TypeAlias = Mapping[str, Any]
Verify: TypeAlias = Callable[[Shown], bool | Awaitable[bool]]


class Refused(Exception):
    """A request that is turned away, with its response. It never leaves a middleware."""

    def __init__(self, response: Problem) -> None:
        """Keep the response."""
        self.response = response
        super().__init__(response.status.phrase)


class Events(Protocol):
    """What the door needs of threads or asyncio."""

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

    A header proves nothing: anybody who may send a request can write one, and a higher token raises
    the mark for good. So the middleware belongs inside of authentication, and two functions
    restrict who may show a token, and which:

    - `authenticated(request)` gets the scope (ASGI) or the environ (WSGI) of a request that shows a
      token, and returns True if its sender may show it. It is a plain function in ASGI too. Without
      the entry that it looks for, it raises a KeyError: then the middleware is outside of
      authentication, and no request passes.
    - `verify(shown)` tells whether a token that would raise the mark is held; an `async` function
      in ASGI. `held_in(client)` asks the engine. With `marks=None` it is called for every token.
    """

    def __init__(
        self,
        resource: Callable[[str, str], str | None],
        *,
        marks: MutableMapping[str, Mark] | None,
        patience: float = 10.0,
        authenticated: Callable[[Request], bool] | None = None,
        verify: Verify | None = None,
    ) -> None:
        """Begin with nobody inside."""
        call = getattr(authenticated, "__call__", None)  # noqa: B004  # of an object
        if inspect.iscoroutinefunction(authenticated) or inspect.iscoroutinefunction(call):
            raise TypeError("authenticated must be a plain function, not `async def`")
        self._authenticated = authenticated
        self._verify = verify
        self._warned = False
        self._resource = resource
        self._marks = marks
        self._patience = patience
        self._lock = threading.Lock()
        self._inside: defaultdict[str, list[Shown]] = defaultdict(list)
        self._waiting: defaultdict[str, list[Event]] = defaultdict(list)

    def look(self, method: str, path: str, values: list[str], request: Request) -> Shown | None:
        """Read the header of a request; None if nothing guards it, or it only looks."""
        name = self._resource(method, path)
        if name is None:
            return None
        if not values:
            if method in SAFE:
                return None
            raise Refused(problem.missing(name))
        if self._authenticated is not None and not self._identified(self._authenticated, request):
            raise Refused(problem.unknown(name))
        try:
            at = parse(", ".join(values))
        except ValueError as error:
            raise Refused(problem.malformed(str(error))) from error
        if at.name != name:
            raise Refused(problem.malformed(f"a token of {at.name!r} was shown to {name!r}"))
        if at.shared and method not in SAFE:
            # A reader leaves the mark as it is, so its write would pass without a trace.
            raise Refused(problem.shared(name))
        return at

    @staticmethod
    def _identified(authenticated: Callable[[Request], bool], request: Request) -> bool:
        try:
            # Not any true value: a coroutine that nobody awaits is one.
            return authenticated(request) is True
        except KeyError as error:
            raise Unguarded(
                f"the request has no {error} yet: put FencingMiddleware inside of the middleware "
                "that authenticates"
            ) from error

    def check_order(self, before: Request, after: Request) -> None:
        """Warn, once, if the application behind the door has authenticated the sender."""
        late = [key for key in IDENTITY if key in after and key not in before]
        if late and not self._warned:
            self._warned = True
            log.warning(
                "authentication (%s) runs behind FencingMiddleware: anybody who can send a request "
                "can raise a mark and lock the holder out. Put FencingMiddleware inside of it.",
                ", ".join(late),
            )

    async def enter(self, at: Shown, events: Events) -> None:
        """Raise the mark, and wait until nobody is inside whom it refuses."""
        if self._marks is None:
            await self._check(at)
            return
        until = now() + self._patience
        checked = self._verify is None
        while True:
            with self._lock:
                mark = self._marks.get(at.name)
                try:
                    raised = admit(mark, at)  # each time: a higher one may have come meanwhile
                except StaleToken as error:
                    raise refused(at, error.current) from None
                doubted = raised != mark and not checked
                if not doubted:
                    if raised != mark:
                        self._marks[at.name] = raised
                    if all(_admitted(raised, each) for each in self._inside[at.name]):
                        self._inside[at.name].append(at)
                        return
                    event = events.event()
                    self._waiting[at.name].append(event)
            if doubted:  # not under the lock: it may ask the engine
                await self._check(at)
                checked = True
            elif not await event.wait(until):
                raise Refused(problem.busy(at.name, self._patience))

    async def _check(self, at: Shown) -> None:
        """Refuse a token that nobody holds. An engine that is away refuses too."""
        if self._verify is None:
            return
        try:
            known = self._verify(at)
            if inspect.isawaitable(known):
                known = await known
        except EngineError as error:
            log.warning("a token of %r could not be verified: %s", at.name, error)
            raise Refused(problem.unverified(at.name)) from error
        if known is not True:
            raise Refused(problem.unknown(at.name))

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
