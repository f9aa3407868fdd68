"""32 processes and one row: every acknowledged increment is there, and no stale one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guards.database import database
from tests.guards.hammer import Plan, hammer
from tests.guards.registers.postgres import Marked
from tests.servers import Redis


class Bare(Marked):
    """The same without the guard."""

    def seal(self, lease: object) -> None:
        """Nothing is there to be sealed."""

    def write(self, lease: object, value: str) -> None:  # noqa: ARG002  # it is not looked at
        self.connection.execute("UPDATE register SET value = %s WHERE id = 1", [value])


@pytest.mark.timeout(300)
def test_every_acknowledged_increment_is_there_and_no_stale_one_is(tmp_path: Path) -> None:
    """The engine keeps nothing on disk, and is started again in the middle: for a while there are
    two holders, and both believe in themselves.
    """
    with database() as server, Redis() as redis:
        report = hammer(
            redis.url,
            Marked,
            server.url,
            Plan(str(tmp_path)),
            midway=lambda: redis.restart(keep_data=False),
        )
    print(report)  # noqa: T201  # figures
    assert report.missing == []
    assert report.stale == []
    assert report.acknowledged >= 20_000
    assert report.value == report.acknowledged + report.unknown_applied
    assert report.refused >= 100


def test_without_the_guard_increments_are_lost(tmp_path: Path) -> None:
    plan = Plan(str(tmp_path), increments=600, processes=8, batch=20, refusals=0)
    with database() as server, Redis() as redis:
        report = hammer(redis.url, Bare, server.url, plan)
    assert report.missing
    assert report.value < report.acknowledged
