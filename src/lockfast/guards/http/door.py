"""The door: the decisions of both middlewares.

Within one process, the door serialises holders. A request with a higher token raises the mark at
once, and then waits until the running requests of earlier holders have ended. So no stale write is
under way when its own begins.
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
from lockfast.guards.http.header import parse, signed_in
from lockfast.guards.http.problem import Problem
from lockfast.guards.mark import Mark, Shown, admit, refused
from lockfast.runtime.base import Event, now

log = logging.getLogger("lockfast")
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
IDENTITY = ("user", "auth", "REMOTE_USER")
"""The keys that authentication adds to a scope (ASGI) or an environ (WSGI)."""
Request: TypeAlias = Mapping[str, Any]
Verify: TypeAlias = Callable[[Shown], bool | Awaitable[bool]]


class Checks(Protocol):
    """`Proofs` of `lockfast.guards.signed`."""

    def check(self, signed: str, at: Shown) -> None:
        """Raise `ValueError` unless a signed token proves these values."""


class Refused(Exception):
    """The rejection of a request, with its response. The middlewares catch it."""

    def __init__(self, response: Problem) -> None:
        """Take the response to send."""
        self.response = response
        super().__init__(response.status.phrase)


class Events(Protocol):
    """The part of a runtime (threads or asyncio) that the door uses."""

    def event(self) -> Event:
        """Return a new event."""


class Door:
    """Decides which requests an application may serve. Make one for each application.

    `marks` determines the guarantee:

    - None: the door compares no tokens. The handler finds the token in the request, and runs a
      guard in its own transaction, the strongest form. A `StaleToken` becomes the response 412.
    - A `MarkFolder`: for a resource that one process serves. The door serialises holders and
      rejects stale ones, also after a restart.
    - A dict: the same, but a restart or a second process does not know the marks. Advisory only.

    A header proves nothing. Anybody who may send a request can write one, and a higher token raises
    the mark for good. So the middleware must run inside of authentication, and `authenticated` and
    `verify` restrict who may show a token, and which one.

    Args:
        resource: Gets the method and the path of a request, and returns the name of the lock that
            guards it, or None. The server must choose the name. A client that chose it could choose
            a lock whose mark admits its token.
        marks: Where the marks are stored: None, a `MarkFolder` or a dict, see above.
        patience: Seconds for which a new holder waits for the running requests of earlier ones.
        authenticated: Gets the scope (ASGI) or the environ (WSGI) of a request with a token, and
            returns True if the sender may show a token. It must be a plain function in ASGI too. If
            the key that it looks up is missing, let it raise `KeyError`: the middleware then runs
            outside of authentication, and no request passes.
        verify: Gets the values of a token that would raise the mark, or of every token with
            `marks=None`, and returns whether it is held. It may be an `async` function in ASGI.
            `held_in(client)` asks the engine.
        proofs: Verifies the signed token that each request must have then, before anything is
            compared: see `lockfast.guards.signed`.

    Raises:
        TypeError: `authenticated` is a coroutine function.

    Example:
        ::

            from lockfast.guards.files import MarkFolder
            from lockfast.guards.http import Door, held_in
            from lockfast.guards.http.wsgi import FencingMiddleware

            door = Door(
                lambda method, path: f"invoice:{path.rpartition('/')[2]}",
                marks=MarkFolder("marks"),
                authenticated=lambda environ: environ["REMOTE_USER"] == "billing",
                verify=held_in(client),
            )
            application = FencingMiddleware(application, door)
    """

    def __init__(  # noqa: PLR0913  # each decides something of its own
        self,
        resource: Callable[[str, str], str | None],
        *,
        marks: MutableMapping[str, Mark] | None,
        patience: float = 10.0,
        authenticated: Callable[[Request], bool] | None = None,
        verify: Verify | None = None,
        proofs: Checks | None = None,
    ) -> None:
        """Create a door without running requests."""
        call = getattr(authenticated, "__call__", None)  # noqa: B004  # of an object
        if inspect.iscoroutinefunction(authenticated) or inspect.iscoroutinefunction(call):
            raise TypeError("authenticated must be a plain function, not `async def`")
        self._authenticated = authenticated
        self._verify = verify
        self._proofs = proofs
        self._warned = False
        self._resource = resource
        self._marks = marks
        self._patience = patience
        self._lock = threading.Lock()
        self._inside: defaultdict[str, list[Shown]] = defaultdict(list)
        self._waiting: defaultdict[str, list[Event]] = defaultdict(list)

    def look(self, method: str, path: str, values: list[str], request: Request) -> Shown | None:
        """Return the token's values in a request. Raise `Refused` if it has no valid token.

        Returns None if no lock guards the request, or if it is a read without a token.
        """
        name = self._resource(method, path)
        if name is None:
            return None
        if not values:
            if method in SAFE:
                return None
            raise Refused(problem.missing(name))
        if self._authenticated is not None and not self._identified(self._authenticated, request):
            raise Refused(problem.unknown(name))
        value = ", ".join(values)
        try:
            at = parse(value)
        except ValueError as error:
            raise Refused(problem.malformed(str(error))) from error
        if at.name != name:
            raise Refused(problem.malformed(f"a token of {at.name!r} cannot be used for {name!r}"))
        if self._proofs is not None:
            try:
                self._proofs.check(signed_in(value), at)
            except ValueError as error:
                log.warning("a signed token for %r was refused: %s", name, error)
                raise Refused(problem.unproven(name)) from None
        if at.shared and method not in SAFE:
            # A reader does not raise the mark to its own ticket, so its write would leave no trace.
            raise Refused(problem.shared(name))
        return at

    @staticmethod
    def _identified(authenticated: Callable[[Request], bool], request: Request) -> bool:
        try:
            # `is True`, because a coroutine that was not awaited is a true value too.
            return authenticated(request) is True
        except KeyError as error:
            raise Unguarded(
                f"the request has no {error} yet: put FencingMiddleware inside the middleware "
                "that authenticates"
            ) from error

    def check_order(self, before: Request, after: Request) -> None:
        """Warn, once, if authentication runs inside of the middleware instead of outside."""
        late = [key for key in IDENTITY if key in after and key not in before]
        if late and not self._warned:
            self._warned = True
            log.warning(
                "authentication (%s) runs inside FencingMiddleware, so anybody who can send a "
                "request can raise a mark and lock the holder out. Put FencingMiddleware inside "
                "the middleware that authenticates.",
                ", ".join(late),
            )

    async def enter(self, at: Shown, events: Events) -> None:
        """Raise the mark, and wait until the running requests that it rejects have ended.

        Raises `StaleToken`, or `Refused` if the token is not verified or the wait takes too long.
        """
        if self._marks is None:
            await self._check(at)
            return
        until = now() + self._patience
        checked = self._verify is None
        while True:
            with self._lock:
                mark = self._marks.get(at.name)
                try:
                    raised = admit(mark, at)  # in each round, since the mark may have been raised
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
            if doubted:  # without the mutex, since `verify` may ask the engine
                await self._check(at)
                checked = True
            elif not await event.wait(until):
                raise Refused(problem.busy(at.name, self._patience))

    async def _check(self, at: Shown) -> None:
        """Raise `Refused` if `verify` rejects the token, or if the engine cannot be reached."""
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
        """End a request, and wake the requests that wait for it."""
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
