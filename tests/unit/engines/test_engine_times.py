"""The time that each engine tells before it has connected, and the fixed times of SQLite."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lockfast.engines import opener
from lockfast.engines.sqlite.clock import HostClock, ahead
from lockfast.port import Ask, Engine, Shape
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse

NEAR = 5.0


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    engine = opener(parse(url), Threads())()
    try:
        yield engine
    finally:
        drive(engine.close())


@pytest.mark.parametrize(
    "url",
    [
        "redis://never.asked",
        "redis+sentinel://never.asked/primary",
        "redis+cluster://never.asked",
        "postgresql://user@never.asked/db",
        "mysql://user@never.asked/db",
    ],
)
def test_a_servers_time_is_unknown_before_its_first_reply(url: str) -> None:
    with opened(url) as engine:
        assert engine.time("x") is None


@pytest.mark.parametrize(
    "url",
    ["etcd://never.asked", "zookeeper://never.asked", "redlock://a.asked,b.asked,c.asked"],
)
def test_where_no_server_compares_times_it_is_the_wall_clock(url: str) -> None:
    with opened(url) as engine:
        told = engine.time("x")
    assert told is not None
    assert abs(told - time.time()) < NEAR


def test_on_sqlite_it_is_the_clock_of_the_host(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path}/locks.db") as engine:
        told = engine.time("x")
    assert told is not None
    assert abs(told - (now() - ahead())) < NEAR


def test_in_memory_it_is_the_clock_of_this_process() -> None:
    with opened("memory://") as engine:
        told = engine.time("x")
    assert told is not None
    assert abs(told - now()) < NEAR


def test_on_sqlite_a_fixed_time_counts_in_place_of_not_after() -> None:
    clock = HostClock(now)
    ask = Ask("0" * 32, Shape("x", 5.0), queue=True, not_after=now() + 5.0, payload=b"")
    assert clock.latest(ask) == clock.at(ask.not_after)
    ask.fixed = 7.5
    assert clock.latest(ask) == 7_500_000
