"""The six old locks that install here, each with its server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from tests.migration import peers
from tests.migration.peers import Peer


@pytest.fixture(
    scope="module", params=["redis-py", "python-redis-lock", "kazoo", "pg", "mysql", "flock"]
)
def peer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    start: dict[str, Callable[[], AbstractContextManager[Peer]]] = {
        "redis-py": peers.redis_py,
        "python-redis-lock": peers.python_redis_lock,
        "kazoo": peers.kazoo,
        "pg": peers.advisory,
        "mysql": peers.get_lock,
        "flock": lambda: peers.flock(tmp_path_factory.mktemp("flock")),
    }
    with start[request.param]() as peer:
        yield peer
