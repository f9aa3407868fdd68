"""What a replica counts of HTTP requests, and for how long it has served them."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from lockfast.service.config import Config
from lockfast.service.figures import Figures
from lockfast.service.http.routes import OPENAPI, ROUTES
from tests.servers import wait_until
from tests.service.http.site import Site
from tests.service.test_access import KEY, Guarded, keys
from tests.service.test_figures import of

COUNT, SUM = "lock_service_http_duration_seconds_count", "lock_service_http_duration_seconds_sum"


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with Guarded(Config(port=0, keys=keys(a=KEY))) as found:
        yield found


@pytest.fixture
def site(guarded: Guarded) -> Site:
    return Site(guarded.port, KEY)


def figures(guarded: Guarded) -> Figures:
    return guarded.server._replica.figures


def requests(guarded: Guarded) -> dict[tuple[str, ...], float]:
    return of(figures(guarded), "lock_service_http_requests_total")


def test_each_request_is_counted_by_its_route_and_status(guarded: Guarded, site: Site) -> None:
    handle = site.acquire("a").body["handle"]
    assert site.acquire("a").status == 409
    site.renew(handle)
    site.get("/v1/locks?prefix=a")
    site.get("/v1/guarantees")
    site.get(OPENAPI)
    site.release(handle)
    site.post("/v1/break", {})
    site.post("/v1/sign", {})
    for path in ("/livez", "/readyz", "/.well-known/jwks.json"):
        guarded.get(path)
    assert requests(guarded) == {
        ("/v1/acquire", "2xx"): 1,
        ("/v1/acquire", "4xx"): 1,
        **{(f"/v1/{each}", "2xx"): 1 for each in ("renew", "locks", "guarantees", "release")},
        ("/v1/break", "4xx"): 1,
        ("/v1/sign", "4xx"): 1,
        **{(path, "2xx"): 1 for path in (OPENAPI, "/livez", "/readyz")},
        ("/.well-known/jwks.json", "4xx"): 1,
    }
    assert of(figures(guarded), COUNT) == {
        ("/v1/acquire",): 2,
        **{(route.path,): 1 for route in ROUTES[1:]},
    }
    assert 'http_route="/v1/acquire"' in guarded.server._app.page()


def test_what_is_refused_is_counted_and_unknown_paths_are_one(guarded: Guarded, site: Site) -> None:
    stranger = Site(guarded.port)
    assert stranger.acquire("a").status == 401
    assert site.get("/v1/acquire").status == 405
    assert site.get("/v1/guarantees", Origin="http://a").status == 403
    for number in range(20):
        assert site.get(f"/v1/nothing{number}").status == 404
        assert guarded.get(f"/nothing{number}") == 404
    with guarded.raw() as sock:
        sock.sendall(b"nonsense\r\n\r\n")
        assert b" 400 " in sock.recv(4_096)
    assert requests(guarded) == {
        ("/v1/acquire", "4xx"): 2,
        ("/v1/guarantees", "4xx"): 1,
        ("other", "4xx"): 41,
    }
    assert of(figures(guarded), COUNT) == {}


def test_an_engine_that_is_away_is_counted_as_an_error(guarded: Guarded, site: Site) -> None:
    guarded.held.cut = True
    assert site.get("/v1/locks").status == 503
    assert requests(guarded) == {("/v1/locks", "5xx"): 1}


def test_a_client_that_leaves_before_its_request_is_whole_is_counted(guarded: Guarded) -> None:
    head = f"POST /v1/renew HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {KEY}\r\n"
    with guarded.raw() as sock:
        sock.sendall(f"{head}Content-Length: 9\r\n\r\n{{".encode())
        sock.shutdown(socket.SHUT_WR)
        wait_until(lambda: requests(guarded) == {("/v1/renew", "left"): 1}, "it is counted")
    assert of(figures(guarded), COUNT) == {}


def test_a_wait_for_a_lock_is_not_in_the_time(guarded: Guarded, site: Site) -> None:
    site.acquire("a")
    assert site.acquire("a", wait=3.0).status == 202
    assert of(figures(guarded), COUNT) == {("/v1/acquire",): 2}
    assert 0.0 < of(figures(guarded), SUM)["/v1/acquire",] < 2.0
