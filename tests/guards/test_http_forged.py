"""The guard over HTTP, and requests that lie: what a forged token can do, and what it cannot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

import lockfast
from lockfast import aio
from lockfast.guards.http import HEADER, Door, header, held_in
from lockfast.guards.http.asgi import FencingMiddleware as Asgi
from lockfast.guards.http.asgi import Receive, Scope, Send
from lockfast.guards.http.wsgi import FencingMiddleware as Wsgi
from lockfast.guards.mark import Mark, Shown
from tests.guards.holders import reader, readers, writer
from tests.servers import Redis, free_port

TOP = 2**53 - 1
Put = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with Redis() as server:
        yield server


class Served:
    """An application behind a door, called by httpx without a network, in one of two forms."""

    def __init__(self, kind: str, identify: str = "", **options: Any) -> None:  # noqa: ANN401  # of `Door`
        """`identify`: "inside" or "outside", where authentication stands."""
        self.marks: dict[str, Mark] = {}
        self.writes: list[str] = []
        self._kind = kind
        door = Door(lambda _, path: path.lstrip("/"), **{"marks": self.marks, **options})
        if kind == "asgi":
            handler = Identified(self._asgi) if identify == "inside" else self._asgi
            self._app: Any = Asgi(handler, door)
            self._app = Identified(self._app) if identify == "outside" else self._app
        else:
            wrapped = identified(self._wsgi) if identify == "inside" else self._wsgi
            self._app = Wsgi(wrapped, door)
            self._app = identified(self._app) if identify == "outside" else self._app

    async def _asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.writes.append(scope["method"])
        await receive()
        start = {"type": "http.response.start", "status": 200, "headers": []}
        await send(start)
        await send({"type": "http.response.body", "body": b""})

    def _wsgi(self, environ: Any, start: Any) -> list[bytes]:  # noqa: ANN401  # WSGI's own
        self.writes.append(environ["REQUEST_METHOD"])
        start("200 OK", [])
        return [b""]

    def __call__(self, method: str, at: Shown | lockfast.Lease | str) -> httpx.Response:
        """Send one request that shows a token."""
        line = at if isinstance(at, str) else header(at)
        if self._kind == "wsgi":
            # A refusal is told with the error that it replaces: httpx would raise that.
            transport = httpx.WSGITransport(self._app, raise_app_exceptions=False)
            with httpx.Client(transport=transport, base_url="http://t") as http:
                return http.request(method, "/x", headers={HEADER: line})
        return asyncio.run(self._sent(method, line))

    async def _sent(self, method: str, line: str) -> httpx.Response:
        there = httpx.ASGITransport(self._app)
        async with httpx.AsyncClient(transport=there, base_url="http://t") as http:
            return await http.request(method, "/x", headers={HEADER: line})


class Identified:
    """Authentication as Starlette does it."""

    def __init__(self, app: Any) -> None:  # noqa: ANN401  # ASGI's own
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["user"] = "alice"
        await self._app(scope, receive, send)


def identified(app: Any) -> Any:  # noqa: ANN401  # WSGI's own
    """Authenticate as a WSGI middleware does it."""

    def serve(environ: Any, start: Any) -> Any:  # noqa: ANN401  # WSGI's own
        environ["REMOTE_USER"] = "alice"
        return app(environ, start)

    return serve


@pytest.fixture(params=["asgi", "wsgi"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("marks", [None, {}])
@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "put", "ANYTHING"])
def test_a_reader_may_not_write(kind: str, method: str, marks: dict[str, Mark] | None) -> None:
    served = Served(kind, marks=marks)
    refused = served(method, readers(TOP, 1))
    assert refused.status_code == 403
    assert refused.json()["type"] == "urn:lockfast:reader-token"
    assert served.writes == []
    assert served("GET", readers(TOP, 1)).status_code == 200


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("token", [2**53, 10**16, 10**19 - 1])
def test_a_token_that_no_engine_mints_raises_no_mark(kind: str, method: str, token: int) -> None:
    served = Served(kind)
    forged = f'"{token}";id="{"0" * 32}";name="x"'
    assert served(method, forged).status_code == 400
    assert served("PUT", writer(7)).status_code == 200
    assert served.marks == {"x": Mark(7, "a" * 32)}


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_token_that_nobody_holds_raises_no_mark_where_the_engine_is_asked(
    redis: Redis, kind: str, method: str
) -> None:
    with lockfast.connect(redis.url) as client:
        served = Served(kind, verify=_verify(kind, redis.url, client))
        with client.lock("x", timeout=5) as lease:
            assert served("PUT", lease).status_code == 200
            for forged in (
                writer(TOP),
                writer(TOP, lease.id),
                writer(lease.token, "f" * 32),
                readers(TOP, TOP),
                readers(lease.token + 1, lease.token + 1, lease.id),
            ):
                assert served(method, forged).status_code in {403, 412}
            assert served.marks == {"x": Mark(lease.token, lease.id)}
            assert served("PUT", lease).status_code == 200
        with client.lock("x", timeout=5) as following:
            assert served("PUT", following).status_code == 200
            assert served("PUT", lease).status_code == 412


def test_a_reader_that_the_engine_knows_passes(redis: Redis, kind: str) -> None:
    with lockfast.connect(redis.url) as client:
        lease = reader(client, "x")
        served = Served(kind, verify=_verify(kind, redis.url, client))
        assert served("GET", lease).status_code == 200
        lease.release()


def test_the_engine_is_asked_once_for_each_holder_and_without_marks_every_time(kind: str) -> None:
    asked: list[int] = []

    def verify(at: Shown) -> bool:
        asked.append(at.token)
        return True

    served = Served(kind, verify=verify)
    for _ in range(3):
        assert served("PUT", writer(7)).status_code == 200
    assert asked == [7]
    served = Served(kind, verify=verify, marks=None)
    for _ in range(3):
        assert served("PUT", writer(8)).status_code == 200
    assert asked == [7, 8, 8, 8]


def test_an_engine_that_is_away_lets_no_new_token_in(kind: str) -> None:
    url = f"redis://127.0.0.1:{free_port()}"
    with lockfast.connect(url) as client:
        served = Served(kind, verify=_verify(kind, url, client))
        answer = served("PUT", writer(7))
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert (served.marks, served.writes) == ({}, [])


def test_a_sender_that_is_not_authenticated_raises_no_mark(kind: str) -> None:
    key = "user" if kind == "asgi" else "REMOTE_USER"
    served = Served(kind, "outside", authenticated=lambda request: request[key] == "bob")
    assert served("PUT", writer(7)).status_code == 403
    assert (served.marks, served.writes) == ({}, [])
    served = Served(kind, "outside", authenticated=lambda request: request[key] == "alice")
    assert served("PUT", writer(7)).status_code == 200


async def _accepts(request: object) -> bool:
    del request
    return True


class _Accepts:
    async def __call__(self, request: object) -> bool:
        return await _accepts(request)


@pytest.mark.parametrize("function", [_accepts, _Accepts()], ids=["function", "object"])
def test_a_coroutine_function_that_nobody_would_await_is_refused(
    kind: str, function: Callable[..., Any]
) -> None:
    with pytest.raises(TypeError, match="must be a plain function"):
        Served(kind, "outside", authenticated=function)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_coroutine_is_no_authentication(kind: str) -> None:
    """It is true, so every sender was let in."""

    def forgets(request: object) -> object:
        return _accepts(request)

    served = Served(kind, "outside", authenticated=forgets)
    assert served("PUT", writer(7)).status_code == 403
    assert (served.marks, served.writes) == ({}, [])


def test_a_door_outside_of_authentication_lets_nobody_in_if_it_is_to_look(kind: str) -> None:
    key = "user" if kind == "asgi" else "REMOTE_USER"
    served = Served(kind, "inside", authenticated=lambda request: request[key] == "alice")
    with pytest.raises(lockfast.Unguarded, match="inside the middleware that authenticates"):
        served("PUT", writer(7))
    assert (served.marks, served.writes) == ({}, [])


@pytest.mark.parametrize(("identify", "warned"), [("inside", 1), ("outside", 0), ("", 0)])
def test_a_door_outside_of_authentication_is_warned_of_once(
    kind: str, identify: str, warned: int, caplog: pytest.LogCaptureFixture
) -> None:
    served = Served(kind, identify)
    with caplog.at_level(logging.WARNING, "lockfast"):
        for _ in range(3):
            assert served("PUT", writer(7)).status_code == 200
    assert caplog.text.count("Put FencingMiddleware inside") == warned


def _verify(kind: str, url: str, client: lockfast.Client) -> Any:  # noqa: ANN401  # of either mode
    """Ask the engine in the mode of the application. Each request here has a loop of its own."""
    if kind == "wsgi":
        return held_in(client)

    async def verify(at: Shown) -> bool:
        async with aio.connect(url) as own:
            known = held_in(own)(at)
            return known if isinstance(known, bool) else await known

    return verify
