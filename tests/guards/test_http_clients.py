"""The client sides: httpx in both modes, and requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest
import requests
from requests.auth import HTTPBasicAuth

import lockfast
from lockfast import Loss, StaleToken
from lockfast.guards.http import header, parse, problem
from lockfast.guards.http.httpx import Fencing
from lockfast.guards.http.requests import Fencing as RequestsFencing
from lockfast.guards.mark import Shown
from tests.guards.echo import Echo
from tests.guards.holders import permit, two_holders, writer


def with_httpx(url: str, at: Shown, **how: str) -> int:
    auth = httpx.BasicAuth("u", "p") if how else None
    with httpx.Client(trust_env=False) as client:
        return client.put(url, auth=Fencing(at, auth)).status_code


def with_async_httpx(url: str, at: Shown, **how: str) -> int:
    async def put() -> int:
        auth = httpx.BasicAuth("u", "p") if how else None
        async with httpx.AsyncClient(trust_env=False) as client:
            return (await client.put(url, auth=Fencing(at, auth))).status_code

    return asyncio.run(put())


def with_requests(url: str, at: Shown, **how: str) -> int:
    auth = HTTPBasicAuth("u", "p") if how else None
    with requests.Session() as session:
        session.trust_env = False
        response = session.put(url, auth=RequestsFencing(at, auth), timeout=10)
        return response.status_code


CLIENTS = [with_httpx, with_async_httpx, with_requests]


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_shows_the_token_and_understands_the_refusal(
    client: Callable[..., int],
) -> None:
    with two_holders("x") as (stale, fresh):
        with Echo(200) as server:
            assert client(server.url, fresh) == 200
        assert server.seen["fencing-token"] == header(fresh)
        refusal = problem(StaleToken("x", stale.token, fresh.token))
        with (
            Echo(412, dict(refusal.headers)["Content-Type"], refusal.body) as server,
            pytest.raises(StaleToken) as caught,
        ):
            client(server.url, stale)
        assert (caught.value.token, caught.value.current) == (stale.token, fresh.token)
        assert stale.loss is Loss.FENCED


def test_requests_shows_no_token_to_another_host_that_a_redirect_names() -> None:
    with Echo(200) as other:
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        with Echo(307, location=elsewhere) as server:
            assert with_requests(server.url, writer(7)) == 200
    assert "fencing-token" in server.seen
    assert other.seen
    assert "fencing-token" not in other.seen


@pytest.mark.parametrize("client", CLIENTS)
def test_another_auth_is_used_besides(client: Callable[..., int]) -> None:
    with Echo(200) as server:
        assert client(server.url, writer(7), auth="basic") == 200
        assert server.seen["authorization"].startswith("Basic ")
        assert parse(server.seen["fencing-token"]) == writer(7)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html", b"no"),
        ("application/problem+json", b"no json"),
        ("application/problem+json", b'{"type": "about:blank", "current": "9"}'),
        ("application/problem+json", b'{"type": "urn:lockfast:stale-token"}'),
        ("application/problem+json", b"[]"),
    ],
)
def test_a_412_of_somebody_else_is_left_to_the_caller(
    client: Callable[..., int], kind: str, body: bytes
) -> None:
    with (
        lockfast.connect("memory://other 412") as engine,
        engine.lock("x") as lease,
        Echo(412, kind, body) as server,
    ):
        assert client(server.url, lease) == 412
        lease.ensure_held()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_412_about_another_lock_costs_no_lease(client: Callable[..., int]) -> None:
    """A service passed on the refusal of its own lease, and the caller's was lost by it."""
    with two_holders("x") as (_, fresh):
        for other in (StaleToken("y", fresh.token, 9), StaleToken("x", fresh.token + 1, 9)):
            refusal = problem(other)
            with Echo(412, dict(refusal.headers)["Content-Type"], refusal.body) as server:
                assert client(server.url, fresh) == 412
        fresh.ensure_held()


def test_a_permit_cannot_be_fenced() -> None:
    with lockfast.connect("memory://http permits") as engine, permit(engine, "x") as lease:
        for fencing in (Fencing, RequestsFencing):
            with pytest.raises(TypeError, match="several can be held at once"):
                fencing(lease)
