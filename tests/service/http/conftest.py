"""A Redis server, and two replicas in front of it that share the key of their handles."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.service.http.seal import new_key
from tests.servers import Redis
from tests.service.http.site import Site, replica


@pytest.fixture(scope="package")
def redis() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture(scope="package")
def sites(redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Site]]:
    path = tmp_path_factory.mktemp("http") / "handle.key"
    path.write_text(new_key().hex(), "ascii")
    path.chmod(0o600)
    text = f'handle_key_file = "{path}"\n'
    with replica(redis.url, text) as one, replica(redis.url, text) as two:
        yield [one.site, two.site]


@pytest.fixture
def site(sites: list[Site]) -> Site:
    return sites[0]


@pytest.fixture
def other(sites: list[Site]) -> Site:
    """The other replica."""
    return sites[1]
