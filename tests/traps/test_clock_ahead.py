"""A server's clock that steps ahead by more than a claim may be late: a free lock stays free."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import lockfast
from lockfast.engines import mysql, postgres
from tests.servers import MariaDB, Postgres, Redis, ServerClock
from tests.traps.modes import Client, Loop


@pytest.fixture(scope="module", params=["redis", "postgres", "mysql"])
def moved(request: pytest.FixtureRequest) -> Iterator[tuple[str, ServerClock]]:
    clock = ServerClock()
    if request.param == "redis":
        with Redis(env=clock.env) as redis:
            yield redis.url, clock
    elif request.param == "postgres":
        with Postgres(env=clock.env) as database:
            postgres.install(database.url)
            yield database.url, clock
    else:
        with MariaDB(env=clock.env) as server:
            mysql.install(server.url)
            yield server.url, clock


@pytest.fixture(params=["threads", "asyncio"])
def mine(request: pytest.FixtureRequest, moved: tuple[str, ServerClock]) -> Iterator[Client]:
    if request.param == "threads":
        with lockfast.connect(moved[0]) as client:
            yield client
    else:
        with Loop() as loop, loop.connect(moved[0]) as client:
            yield client


def test_a_free_lock_is_not_busy_after_the_clock_stepped_ahead(
    mine: Client, moved: tuple[str, ServerClock]
) -> None:
    clock = moved[1]
    mine.lock("warm", ttl=30).acquire(timeout=5.0).release()
    clock.advance(11.0)
    lease = mine.lock("cron", ttl=30).try_acquire()
    assert lease is not None
    lease.release()
    clock.advance(33.0)
    mine.lock("cron", ttl=30).acquire(timeout=0.0).release()
    clock.advance(66.0)
    mine.lock("cron", ttl=30).acquire(timeout=5.0).release()
