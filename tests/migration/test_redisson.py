"""Python takes Redisson's lock as the page shows, and a Java side sees and respects it.

Redisson itself needs a registry that the tests do not have. `Java` sends what its source sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import lockfast
from tests.migration.page import programs
from tests.migration.pair import check_waits, queued
from tests.migration.worker import LONG, Worker
from tests.servers import Redis, wait_until

OURS = "Redisson's lock in Python"
CHANNEL = "redisson_lock__channel:{invoices}"


class Java:
    """A thread of a Java service with `redisson.getLock("invoices")`."""

    TRY = """
    local held = redis.call('exists', KEYS[1]) == 1
    if held and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
        return redis.call('pttl', KEYS[1])
    end
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], ARGV[1])
    return false
    """
    UNLOCK = """
    if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
        return false
    end
    if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then
        return 0
    end
    redis.call('del', KEYS[1])
    redis.call('publish', KEYS[2], 0)
    return 1
    """

    def __init__(self, server: redis.Redis) -> None:
        """Take a connection, and an id as Redisson makes them."""
        self._server = server
        self._id = "5ab1dd2a-7b1c-4d0e-9a0c-9f3a3e2f7a11:41"

    def try_lock(self, lease_time: float = 30.0) -> int | None:
        """Return None if it has the lock, and otherwise how long the lock's time still is."""
        found: Any = self._server.eval(
            self.TRY, 1, "invoices", str(int(lease_time * 1000)), self._id
        )
        return None if found is None else int(found)

    def unlock(self) -> bool:
        """Return False where Redisson raises IllegalMonitorStateException."""
        return self._server.eval(self.UNLOCK, 2, "invoices", CHANNEL, self._id) is not None


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture
def connection(server: Redis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as connection:
        yield connection


@pytest.fixture
def code(server: Redis) -> dict[str, str]:
    found = programs("redisson.md", {"redis://localhost:6379": server.url})
    return {**found, "Deploy 1": found[OURS] + found["Deploy 1"]}


def test_deploy_1_waits_for_java(
    server: Redis, connection: redis.Redis, code: dict[str, str], tmp_path: Path
) -> None:
    java = Java(connection)
    assert java.try_lock() is None
    assert java.try_lock() is None  # a re-entrant call
    with lockfast.connect(server.url) as client, Worker(code["Deploy 1"], tmp_path) as worker:
        lock = client.lock("invoices")
        wait_until(lambda: len(lock.holders()) == 1, "it has lockfast's lock", LONG)
        assert java.unlock()
        asked = _evals(connection)
        wait_until(lambda: _evals(connection) > asked + 2, "it asks for Redisson's lock", LONG)
        assert not worker.works()
        assert java.unlock()
        worker.wait_works()
        worker.finish()


def _evals(connection: redis.Redis) -> int:
    stats: Any = connection.info("commandstats")
    return int(stats["cmdstat_eval"]["calls"])


def test_java_waits_for_deploy_1_and_is_woken(
    connection: redis.Redis, code: dict[str, str], tmp_path: Path
) -> None:
    java = Java(connection)
    made: Any = connection.pubsub  # redis-py gives it no types
    with Worker(code["Deploy 1"], tmp_path) as worker, made() as channel:
        channel.subscribe(CHANNEL)
        worker.wait_works()
        left = java.try_lock()
        assert left is not None
        assert 0 < left <= 60_000
        assert not java.unlock()  # it is not its lock
        worker.finish()
        woken: Any = None
        while woken is None or woken["type"] != "message":
            woken = channel.get_message(timeout=LONG)
            assert woken is not None
        assert woken["data"] == b"0"
        assert java.try_lock() is None
        assert java.unlock()


@pytest.mark.parametrize(("first", "second"), [("Deploy 1", "After"), ("After", "Deploy 1")])
def test_deploy_1_and_deploy_2_wait_for_each_other(
    server: Redis, code: dict[str, str], first: str, second: str, tmp_path: Path
) -> None:
    check_waits(code[first], code[second], queued(server.url), tmp_path)


def test_work_that_outlasts_the_lease_time_is_an_error_and_does_not_unlock_java(
    connection: redis.Redis, code: dict[str, str]
) -> None:
    names: dict[str, Any] = {}
    exec(code[OURS], names)  # noqa: S102  # the page's function
    java = Java(connection)
    with (
        pytest.raises(TimeoutError, match="ended before the work did"),
        names["redisson_lock"](connection, "invoices", wait_time=0, lease_time=0.1),
    ):
        wait_until(lambda: java.try_lock() is None, "the lease time has ended")
    assert connection.hlen("invoices") == 1
    with (
        pytest.raises(TimeoutError, match="still held after"),
        names["redisson_lock"](connection, "invoices", wait_time=0.2, lease_time=1),
    ):
        raise AssertionError
    assert java.unlock()


def test_a_request_that_is_sent_twice_finds_its_own_lock(
    connection: redis.Redis, code: dict[str, str]
) -> None:
    # redis-py sends a request again if the connection broke before the reply came.
    names: dict[str, Any] = {}
    exec(code[OURS], names)  # noqa: S102  # the page's scripts
    assert connection.eval(names["TAKE"], 1, "twice", "me:1", "1000") == 1
    assert connection.eval(names["TAKE"], 1, "twice", "me:1", "1000") == 1
    assert connection.eval(names["TAKE"], 1, "twice", "another:1", "1000") == 0
    assert connection.eval(names["RELEASE"], 1, "twice", "me:1", CHANNEL) == 1
    assert connection.exists("twice") == 0
