"""Engines for the command line, and a way to cut it off from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.servers import EtcdCluster, Proxy, Redis


class Place(NamedTuple):
    """An engine, where it is, and where it is by way of a proxy."""

    url: str
    proxied: str
    proxy: Proxy


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Redis() as server:
        yield server.url


@pytest.fixture(scope="module", params=["redis", "etcd"])
def engine(request: pytest.FixtureRequest) -> Iterator[tuple[str, str, int]]:
    if request.param == "redis":
        with Redis() as server:
            yield "redis", server.host, server.port
    else:
        with EtcdCluster(1) as cluster:
            node = cluster.nodes[0]
            yield "etcd", node.host, node.port


@pytest.fixture
def place(engine: tuple[str, str, int]) -> Iterator[Place]:
    scheme, host, port = engine
    with Proxy(host, port) as proxy:
        yield Place(f"{scheme}://{host}:{port}", f"{scheme}://{proxy.address}", proxy)
