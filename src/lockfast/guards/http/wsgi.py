"""The WSGI middleware of the HTTP guard."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from lockfast.errors import StaleToken
from lockfast.guards.http.door import Door, Refused
from lockfast.guards.http.header import HEADER, SHOWN
from lockfast.guards.http.problem import Problem, problem
from lockfast.guards.mark import Shown
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_KEY = "HTTP_" + HEADER.upper().replace("-", "_")


class FencingMiddleware:
    """Rejects requests with a stale token, by the rules of its `Door`.

    The application finds the values of the token in `environ["lockfast.shown"]`.

    Args:
        app: The application to wrap.
        door: The rules.

    Example:
        ::

            door = Door(lambda method, path: f"invoice:{path.rpartition('/')[2]}", marks=None)
            application = FencingMiddleware(application, door)
    """

    def __init__(self, app: WSGIApplication, door: Door) -> None:
        """Wrap an application."""
        self._app = app
        self._door = door
        self._runtime = Threads()

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Serve one request."""
        at: Shown | None = None
        entered = False
        try:
            method, values = environ["REQUEST_METHOD"], _values(environ)
            at = self._door.look(method, _path(environ), values, environ)
            if at is None:
                return self._app(environ, start)
            drive(self._door.enter(at, self._runtime))
            entered = True
            inner = {**environ, SHOWN: at}
            body = self._app(inner, start)
            return _Body(body, self._door, at, lambda: self._door.check_order(environ, inner))
        except Refused as refusal:
            return _answer(start, refusal.response)
        except BaseException as error:
            if entered and at is not None:
                self._door.leave(at)
            if not isinstance(error, StaleToken):
                raise
            return _answer(start, problem(error))


def _path(environ: WSGIEnvironment) -> str:
    raw = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return str(raw).encode("latin-1").decode("utf-8", "replace")


def _values(environ: WSGIEnvironment) -> list[str]:
    return [environ[_KEY]] if _KEY in environ else []


def _answer(start: StartResponse, response: Problem) -> list[bytes]:
    # `exc_info` lets the server replace a response that the application began but did not send.
    status = f"{int(response.status)} {response.status.phrase}"
    start(status, response.headers, sys.exc_info())
    return [response.body]


class _Body:
    """The body of a response. The request counts as running until the server closes the body."""

    def __init__(
        self, body: Iterable[bytes], door: Door, at: Shown, ended: Callable[[], None]
    ) -> None:
        """Fetch the first chunk at once, because a generator application does its work there, and
        its `StaleToken` must become the response.
        """
        self._body = body
        self._door = door
        self._ended = ended
        self._at: Shown | None = at
        self._rest = iter(body)
        try:
            self._first: list[bytes] = [next(self._rest)]
        except StopIteration:
            self._first = []
        except BaseException:
            self._shut()
            raise

    def __iter__(self) -> Iterator[bytes]:
        """Return itself."""
        return self

    def __next__(self) -> bytes:
        """Return the next chunk."""
        return self._first.pop() if self._first else next(self._rest)

    def close(self) -> None:
        """Close the application's body, and end the request, once."""
        try:
            self._shut()
        finally:
            at, self._at = self._at, None
            if at is not None:
                self._door.leave(at)
                self._ended()

    def _shut(self) -> None:
        close = getattr(self._body, "close", None)
        if close is not None:
            close()
