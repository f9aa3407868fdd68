"""Deadlines of callers that share a client: who has little time does not wait as long as others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from lockfast import EngineUnavailable, LockfastError
from lockfast.engines.mysql import install as install_mysql
from lockfast.engines.postgres import install
from lockfast.testing import MODES, Stage, UrlBench
from lockfast.testing.harness.verbs import acquire, close, release
from tests.servers import EtcdCluster, MariaDB, Postgres, Redis, RedlockSet, ZooKeeper
from tests.servers.process import Server

Place = tuple[str, Server]


class Anywhere(UrlBench):
    """A server that one test has for itself."""

    def wipe(self) -> None:
        """Leave it."""


@contextmanager
def redis() -> Iterator[Place]:
    with Redis() as server:
        yield server.url, server


@contextmanager
def redlock() -> Iterator[Place]:
    with RedlockSet(1) as nodes:
        yield nodes.url, nodes.nodes[0]


@contextmanager
def postgres() -> Iterator[Place]:
    with Postgres(config={"fsync": "off"}) as server:
        install(server.url)
        yield server.url, server


@contextmanager
def mysql() -> Iterator[Place]:
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        install_mysql(server.url)
        yield server.url, server


@contextmanager
def etcd() -> Iterator[Place]:
    with EtcdCluster(1) as cluster:
        yield cluster.url, cluster.nodes[0]


@contextmanager
def zookeeper() -> Iterator[Place]:
    with ZooKeeper() as server:
        yield server.url, server


@pytest.mark.parametrize("place", [redis, redlock, postgres, mysql, etcd, zookeeper])
@pytest.mark.parametrize("mode", sorted(MODES))
def test_who_has_little_time_does_not_wait_for_a_connection_as_long_as_who_began_it(
    place: Callable[[], AbstractContextManager[Place]], mode: str
) -> None:
    with place() as (url, server):
        stage = Stage(Anywhere(url), MODES[mode]())

        async def timed(timeout: float) -> float:
            began = time.monotonic()
            with pytest.raises(LockfastError):
                await acquire(stage_client.lock(f"x{timeout}", ttl=30.0), timeout)
            return time.monotonic() - began

        async def play() -> list[float]:
            patient = stage.mode.start(timed(3.0))
            await stage.mode.sleep(0.1)
            return [await timed(0.3), await patient.result()]

        stage_client = stage.client()
        server.pause()
        try:
            short, long = stage.mode.run(play())
        finally:
            server.resume()
        stage.mode.run(stage.clear())
        stage.mode.close()
        assert short < 0.8
        assert long < 3.5


@pytest.mark.parametrize("place", [redis, redlock, postgres, mysql, etcd, zookeeper])
@pytest.mark.parametrize("mode", sorted(MODES))
def test_closing_a_client_whose_server_is_silent_takes_two_seconds(
    place: Callable[[], AbstractContextManager[Place]], mode: str
) -> None:
    with place() as (url, server):
        stage = Stage(Anywhere(url), MODES[mode]())
        client = stage.client()

        async def play() -> float:
            for ttl in (2.0, 30.0):
                await acquire(client.lock(f"x{ttl}", ttl=ttl), 5.0)
            server.pause()
            await stage.mode.sleep(2.5)  # one of them is lost, and is to be resigned
            began = time.monotonic()
            await close(client)
            return time.monotonic() - began

        try:
            took = stage.mode.run(play())
        finally:
            server.resume()
        stage.mode.close()
        assert took < 2.25


@pytest.mark.parametrize("place", [redis, redlock, postgres, mysql, etcd, zookeeper])
@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("when", ["before", "while it waits"])
def test_lock_all_keeps_its_timeout_though_the_server_falls_silent(
    place: Callable[[], AbstractContextManager[Place]], mode: str, when: str
) -> None:
    with place() as (url, server):
        stage = Stage(Anywhere(url), MODES[mode]())
        client = stage.client()

        async def timed() -> float:
            began = time.monotonic()
            # An outage must not look as if somebody held it.
            with pytest.raises(EngineUnavailable if when == "before" else LockfastError):
                await acquire(client.lock_all("a", "b", ttl=30.0), 1.0)
            return time.monotonic() - began

        async def asleep() -> float:
            began = time.monotonic()
            await stage.mode.sleep(1.0)
            return time.monotonic() - began

        async def play() -> float:
            await acquire(stage.client().lock("b", ttl=30.0), 5.0)
            await release(await acquire(client.lock("a", ttl=30.0), 5.0))
            if when == "before":
                server.pause()
            job = stage.mode.start(timed())
            slept = stage.mode.start(asleep())
            await stage.mode.sleep(0.5)
            if when != "before":
                server.pause()
            # A machine that stands still when the second is over delays both.
            return await job.result() - await slept.result()

        try:
            longer = stage.mode.run(play())
        finally:
            server.resume()
        stage.mode.run(stage.clear())
        stage.mode.close()
        assert longer < 0.5
