"""Stories on MariaDB with real processes: a holder that was paused, before the write and in it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lockfast import LeaseLost
from lockfast.guards.mysql import protect
from tests.guards import story
from tests.guards.hammer import Plan, hammer
from tests.guards.mariadb import mariadb as started
from tests.guards.registers.mysql import Columned, Marked, Triggered, connect
from tests.servers import MariaDB, Redis


class Bare(Marked):
    """The same without the guard."""

    def seal(self, lease: object) -> None:
        """Nothing is there to be sealed."""

    def write(self, lease: object, value: str) -> None:
        self.write_bare(lease, value)  # type: ignore[arg-type]  # it is not looked at


@pytest.mark.parametrize("register", [Marked, Columned])
def test_a_holder_that_was_paused_is_refused_and_the_next_ones_value_stands(
    redis: Redis, mariadb: MariaDB, register: type[story.Resource]
) -> None:
    story.refused(redis.url, register, mariadb.url, register.__name__)


def test_the_trigger_refuses_the_paused_holder(redis: Redis, mariadb: MariaDB) -> None:
    with connect(mariadb.url) as connection:
        protect(connection, "watched", "watched")
    story.refused(redis.url, Triggered, mariadb.url, "watched")


def test_with_the_guard_switched_off_the_paused_holder_overwrites(
    redis: Redis, mariadb: MariaDB
) -> None:
    story.corrupted(redis.url, Marked, mariadb.url, "bare")


def test_a_stale_transaction_that_is_paused_blocks_the_next_holder_no_longer_than_its_lease(
    redis: Redis, mariadb: MariaDB
) -> None:
    with (
        story.Actor(redis.url, Marked, mariadb.url) as a,
        story.Actor(redis.url, Marked, mariadb.url) as b,
    ):
        a.call("acquire", "paused", 1.0)
        a.call("begin", "A, uncommitted")
        a.pause()
        began = time.monotonic()
        b.call("acquire", "paused", 30.0)
        granted = time.monotonic()
        b.call("seal")
        sealed = time.monotonic()
        print(f"granted after {granted - began:.2f} s, sealed {sealed - granted:.2f} s later")  # noqa: T201  # a figure
        assert sealed - began < 1.0 + 4.0  # the server counts whole seconds, and its limit is 50 s
        b.call("write", "B")
        a.resume()
        with pytest.raises(LeaseLost):
            a.call("commit")
        assert b.call("read") == "B"


@pytest.mark.timeout(300)
def test_every_acknowledged_increment_is_there_and_no_stale_one_is(tmp_path: Path) -> None:
    plan = Plan(str(tmp_path), increments=2000, processes=12, refusals=25)
    with started() as server, Redis() as redis:
        report = hammer(
            redis.url, Marked, server.url, plan, midway=lambda: redis.restart(keep_data=False)
        )
    print(report)  # noqa: T201  # figures
    assert report.missing == []
    assert report.stale == []
    assert report.acknowledged >= 2000
    assert report.value == report.acknowledged + report.unknown_applied
    assert report.refused >= 12


def test_without_the_guard_increments_are_lost(tmp_path: Path) -> None:
    plan = Plan(str(tmp_path), increments=600, processes=8, batch=20, refusals=0)
    with started() as server, Redis() as redis:
        report = hammer(redis.url, Bare, server.url, plan)
    assert report.missing
    assert report.value < report.acknowledged
