"""Hosts: a password that crosses a network is reported."""

from __future__ import annotations

import asyncio

import pytest

import lockfast.aio
from lockfast.engines.hosts import exposed
from lockfast.engines.redis.url import OPTIONS, tls_context, weaknesses
from lockfast.engines.zookeeper.url import Address
from lockfast.url import parse


@pytest.mark.parametrize(
    ("url", "reported"),
    [
        ("redis://:secret@db.example", True),
        ("redis://:secret@127.0.0.1,db.example", True),
        ("redis://:secret@127.0.0.1.evil.example", True),
        ("redis://:secret@localhost", False),
        ("redis://:secret@127.3.4.5", False),
        ("redis://:secret@[::1]:7", False),
        ("redis://db.example", False),
        ("redis+sentinel://db.example/m?sentinel_password=secret", True),
    ],
)
def test_a_password_that_crosses_a_network_in_clear_is_reported(
    url: str,
    reported: bool,  # noqa: FBT001  # a value
) -> None:
    target = parse(url)
    assert bool(exposed(target, encrypted=False, remedy="")) is reported
    assert not exposed(target, encrypted=True, remedy="")


@pytest.mark.parametrize(
    ("url", "reported"),
    [
        ("zookeeper://u:secret@db.example", True),
        ("zookeeper://u:secret@db.example?ssl=false", True),
        ("zookeeper://u:secret@db.example?ssl=true", False),
        ("zookeeper://db.example", False),
    ],
)
def test_a_password_of_zookeeper_is_reported_unless_tls_is_on(
    url: str,
    reported: bool,  # noqa: FBT001  # a value
) -> None:
    assert bool(Address.of(parse(url)).weak) is reported


@pytest.mark.parametrize(
    ("url", "missing"),
    [
        ("rediss://db.example?ssl_cert_reqs=none", "certificate"),
        ("rediss://db.example?ssl_check_hostname=false", "host name"),
        ("redlocks://a.example,b.example,c.example?ssl_cert_reqs=none", "certificate"),
        ("zookeeper://db.example?ssl=true&ssl_verify=false", "certificate"),
        ("zookeeper://db.example?ssl=true&ssl_check_hostname=false", "host name"),
        ("rediss://localhost?ssl_cert_reqs=none", ""),
        ("rediss://db.example", ""),
        ("zookeeper://db.example?ssl=true", ""),
    ],
)
def test_tls_that_does_not_check_the_server_is_reported(url: str, missing: str) -> None:
    target = parse(url)
    if target.scheme == "zookeeper":
        found = Address.of(target).weak
    else:
        found = weaknesses(target, tls_context(target.take(*OPTIONS)))
    said = [each.setting for each in found]
    assert said == ([f"TLS without a check of the server's {missing}"] if missing else [])


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
@pytest.mark.parametrize("host", ["a" * 300, ".", "..a", "%ff", "%ed%a0%80"])
def test_a_host_that_is_no_name_is_not_reached_and_raises_an_error_of_ours(
    host: str, scheme: str
) -> None:
    url = f"{scheme}://u@{host}/x"

    async def play() -> None:
        async with lockfast.aio.connect(url) as client:
            await client.lock("x").acquire(timeout=0.2)

    with pytest.raises(lockfast.EngineUnavailable):
        asyncio.run(play())
    with (
        lockfast.connect(url) as client,
        pytest.raises(lockfast.EngineUnavailable),
    ):
        client.lock("x").acquire(timeout=0.2)
