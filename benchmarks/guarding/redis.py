"""On Redis: a guarded SET against the bare one of the same client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.utils import HIREDIS_AVAILABLE

import lockfast
from benchmarks.rounds import Work
from lockfast.guards.redis import RedisGuard
from tests.servers import Redis

KEY = "{guarded}:value"
VALUE = b"v" * 100


@contextmanager
def writes() -> Iterator[dict[str, Work]]:
    """Give both ways to write, by name: on one server, with one client."""
    assert HIREDIS_AVAILABLE, "redis-py would be measured without its fast parser"
    with (
        Redis() as server,
        redis.Redis.from_url(server.url) as client,
        lockfast.connect("memory://") as locks,
        locks.lock("guarded", ttl=600) as lease,
    ):
        guard = RedisGuard(client)
        guard.seal(lease)

        def bare(count: int) -> None:
            for _ in range(count):
                client.set(KEY, VALUE)

        def guarded(count: int) -> None:
            for _ in range(count):
                guard.apply(lease, [("SET", KEY, VALUE)])

        yield {"bare": bare, "guarded": guarded}
