"""Who may send requests: as with the WebSocket."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Thread

import pytest

from lockfast.service.config import Config
from lockfast.service.http.routes import OPENAPI, ROUTES
from lockfast.service.keys import stored
from tests.servers import Redis, wait_until
from tests.service.http.site import Answered, Site
from tests.service.served import Served
from tests.service.test_access import KEY, OTHER, Guarded, keys

REQUESTS = [
    *((route.method, route.path) for route in ROUTES),
    ("GET", OPENAPI),
    ("GET", "/v1/nothing"),
]


@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_a_request_needs_a_key_and_comes_from_no_page(method: str, path: str) -> None:
    with Guarded(Config(port=0, keys=keys(a=KEY))) as guarded:
        stranger, client = Site(guarded.port), Site(guarded.port, KEY)
        refused = stranger.ask(method, path)
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert Site(guarded.port, OTHER).ask(method, path).status == 401
        assert client.ask(method, path, Origin="http://localhost").status == 403
        assert client.ask(method, path).status not in {401, 403}
        counts = guarded.server._replica.figures.refused.counts
        assert counts["401",] == 2
        assert counts["403",] == 1


@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_without_keys_only_this_machine_is_served(method: str, path: str) -> None:
    with Guarded(Config(port=0)) as guarded:
        site = Site(guarded.port)
        assert site.ask(method, path, Host="evil.example").status == 403
        assert site.ask(method, path, Host="localhost").status != 403


def test_a_handle_is_of_the_client_that_got_it() -> None:
    with Guarded(Config(port=0, keys=keys(a=KEY, b=OTHER))) as guarded:
        one, two = Site(guarded.port, KEY), Site(guarded.port, OTHER)
        handle = one.acquire("a", key="k").body["handle"]
        for path, body in (
            ("/v1/release", {"handle": handle}),
            ("/v1/renew", {"handles": [handle]}),
            ("/v1/acquire", {"handle": handle}),
        ):
            assert two.post(path, body).status == 403
        assert two.acquire("a", key="k").status == 409  # its key is another one
        (shown,) = two.who("a")
        assert shown["service"] == "a"
        assert one.release(handle)


def test_a_key_that_is_removed_ends_its_waits() -> None:
    config = Config(port=0, keys=keys(a=KEY, b=OTHER))
    with Guarded(config) as guarded:
        one, two = Site(guarded.port, KEY), Site(guarded.port, OTHER)
        two.acquire("a")
        found: list[Answered] = []
        thread = Thread(target=lambda: found.append(one.acquire("a", wait=60)))
        thread.start()
        wait_until(lambda: len(two.who("a")) == 2, "it waits")
        time.sleep(0.1)
        guarded.reload(Config(port=0, keys=keys(b=OTHER)))
        thread.join(10)
        assert found[0].status == 401
        wait_until(lambda: len(two.who("a")) == 1, "it has left the queue")


def test_a_key_that_is_removed_during_the_first_question_is_not_admitted(
    redis: Redis, tmp_path: Path
) -> None:
    text = f"[keys]\n{stored('a', KEY)}\n{stored('b', OTHER)}\n"
    with Served(tmp_path, redis.url, text) as served:
        redis.pause()
        found: list[Answered] = []
        one = Site(served.port, KEY)
        thread = Thread(target=lambda: found.append(one.acquire("first", wait=60)))
        thread.start()
        time.sleep(0.5)
        try:
            served.reload(f"[keys]\n{stored('b', OTHER)}\n")
        finally:
            redis.resume()
        thread.join(10)
        assert found[0].status == 401
        wait_until(lambda: not Site(served.port, OTHER).who("first"), "it has left")


def test_the_keys_of_handles_are_reloaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("keys") / "handle.key"
    path.write_text("a" * 32, "ascii")
    config = Config(port=0, handle_key_file=str(path))
    with Guarded(config) as guarded:
        site = Site(guarded.port)
        handle = site.acquire("a").body["handle"]
        path.write_text(f"{'b' * 32}\n{'a' * 32}\n", "ascii")
        guarded.reload(config)
        wait_until(lambda: len(guarded.server.credentials.handle_keys) == 2, "it has reloaded")
        assert site.renew(handle)[0]["state"] == "held"
        path.write_text("b" * 32, "ascii")
        guarded.reload(config)
        wait_until(lambda: len(guarded.server.credentials.handle_keys) == 1, "it has reloaded")
        assert site.post("/v1/release", {"handle": handle}).status == 403
