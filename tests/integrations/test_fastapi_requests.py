"""FastAPI: a lock per request, in two real workers of an app."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import redis

import lockfast
from lockfast.guards.redis import RedisGuard
from tests.servers import Program, Redis, free_port, wait_until

HOME = Path(__file__).parents[2] / "docs" / "how-to" / "examples" / "fastapi-request"
LONG = 60.0  # seconds that a program may take, on a machine that has others to run


class App(NamedTuple):
    """The app, and both servers that it uses."""

    port: int
    locks: Redis
    data: Redis

    def ask(self, path: str, method: str = "POST") -> httpx.Response:
        return httpx.request(method, f"http://127.0.0.1:{self.port}{path}", timeout=LONG)

    def leave(self, path: str) -> socket.socket:
        """Ask, and give the connection, so that the client can go."""
        client = socket.create_connection(("127.0.0.1", self.port))
        client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        return client

    def recorded(self, key: str) -> int:
        found = self.data.command("LLEN", key)
        assert isinstance(found, int)
        return found


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    port = free_port()
    argv = ["uvicorn", "tests.integrations.fastapi_requests:app", "--port", str(port)]
    # Otherwise a slow machine's workers are killed.
    workers = ["--workers", "2", "--timeout-worker-healthcheck", "60"]
    with Redis() as locks, Redis() as data:
        urls = {"LOCKFAST_URL": locks.url, "REDIS_URL": data.url}
        with Program([*argv, *workers], HOME, "startup complete", urls):
            yield App(port, locks, data)


@pytest.fixture
def client(app: App) -> Iterator[lockfast.Client]:
    with lockfast.connect(app.locks.url) as client:
        yield client


def held(client: lockfast.Client, name: str) -> bool:
    return bool(client.lock(name).holders())


def revoke(client: lockfast.Client, name: str) -> None:
    """Wait until a request holds the lock, and take it away."""
    wait_until(lambda: held(client, name), "a request holds the lock", LONG)
    assert client.revoke(client.lock(name).holders()[0], "a test")


def test_requests_for_one_invoice_run_one_after_another(app: App) -> None:
    def add(amount: int) -> httpx.Response:
        path = f"/invoices/1/lines?amount={amount}"
        while (answer := app.ask(path)).status_code == HTTPStatus.LOCKED:
            pass  # a slow machine: it tries again, as a client would
        return answer

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(add, [1] * 8))
    assert {answer.status_code for answer in answers} == {HTTPStatus.OK}
    assert app.data.command("GET", "{invoice:1}:total") == b"8"


def test_a_request_that_does_not_get_the_lock_is_423_and_others_are_served(
    app: App, client: lockfast.Client
) -> None:
    with client.lock("invoice:2"):
        answer = app.ask("/invoices/2/lines?amount=1")
        assert app.ask("/invoices/3/lines?amount=1").status_code == HTTPStatus.OK
    assert (answer.status_code, answer.headers["Retry-After"]) == (HTTPStatus.LOCKED, "2")
    assert app.data.command("GET", "{invoice:2}:total") is None


def test_the_lock_is_free_when_the_response_arrives(app: App, client: lockfast.Client) -> None:
    for _ in range(20):
        assert app.ask("/invoices/4/lines?amount=1").status_code == HTTPStatus.OK
        assert not held(client, "invoice:4")


def test_a_sync_handler_uses_the_same_lock(app: App, client: lockfast.Client) -> None:
    app.ask("/invoices/5/lines?amount=1")
    with client.lock("invoice:5"):
        assert app.ask("/invoices/5", "DELETE").status_code == HTTPStatus.LOCKED
    assert app.ask("/invoices/5", "DELETE").status_code == HTTPStatus.OK
    assert app.data.command("GET", "{invoice:5}:total") is None


def test_a_lost_lock_cancels_an_async_handler_and_the_response_is_500(
    app: App, client: lockfast.Client
) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(app.ask, "/slow/6?seconds=600")
        revoke(client, "invoice:6")
        assert answer.result(LONG).status_code == HTTPStatus.INTERNAL_SERVER_ERROR
    assert app.recorded("cancelled:6") == 1


def test_a_lost_lock_does_not_stop_a_sync_handler(app: App, client: lockfast.Client) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(app.ask, "/thread/7?seconds=12")
        revoke(client, "invoice:7")
        assert answer.result(LONG).status_code == HTTPStatus.INTERNAL_SERVER_ERROR
        assert app.recorded("done:7") == 0
    wait_until(lambda: app.recorded("done:7") == 1, "the thread ends as if nothing were", LONG)


def test_a_write_after_a_later_holder_is_409(app: App) -> None:
    # Tokens of the data's server are higher here, so that the request is the earlier holder.
    with (
        lockfast.connect(f"{app.data.url}?token_base=1000000000000000") as later,
        redis.Redis.from_url(app.data.url) as data,
        later.lock("invoice:8") as lease,
    ):
        RedisGuard(data).seal(lease)
        assert app.ask("/invoices/8/lines?amount=1").status_code == HTTPStatus.CONFLICT


def test_a_handler_whose_client_has_gone_ends_its_work_and_releases(
    app: App, client: lockfast.Client
) -> None:
    with closing(app.leave("/slow/9?seconds=2")):
        wait_until(lambda: held(client, "invoice:9"), "it works", LONG)
    wait_until(lambda: app.recorded("done:9") == 1, "it has done its work", LONG)
    wait_until(lambda: not held(client, "invoice:9"), "the lock is free", LONG)


def test_a_request_whose_client_has_gone_while_it_waited_does_not_begin(
    app: App, client: lockfast.Client
) -> None:
    lock = client.lock("invoice:10")
    with lock, closing(app.leave("/slow/10?seconds=0")):
        wait_until(lambda: len(lock.queue()) == 2, "it waits", LONG)
    wait_until(lambda: not lock.queue(), "it has gone", LONG)
    assert app.recorded("done:10") == app.recorded("cancelled:10") == 0
    assert app.ask("/slow/10?seconds=0").status_code == HTTPStatus.OK  # whose client is there


def test_a_lock_server_that_is_down_is_503(app: App) -> None:
    app.locks.stop()
    try:
        answer = app.ask("/invoices/11/lines?amount=1")
    finally:
        app.locks.start()
    assert (answer.status_code, answer.headers["Retry-After"]) == (
        HTTPStatus.SERVICE_UNAVAILABLE,
        "5",
    )
