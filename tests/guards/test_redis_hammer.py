"""The hammer on a key of Redis: many processes, short leases, stopped holders, a lost engine."""

from __future__ import annotations

from pathlib import Path

from tests.guards.hammer import Plan, hammer
from tests.guards.resources.redis import KEY, RedisRegister
from tests.servers import Redis


def test_no_update_is_lost_and_no_stale_write_is_applied(tmp_path: Path) -> None:
    with Redis() as engine, Redis() as data:  # the engine keeps nothing: its restart forgets all
        data.command("SET", KEY, "0 start")
        report = hammer(
            engine.url,
            RedisRegister,
            data.url,
            Plan(str(tmp_path), refusals=110),
            midway=lambda: engine.restart(keep_data=False),
        )
    assert report.acknowledged >= 20_000
    assert report.value == report.acknowledged
    assert (report.missing, report.stale, report.unknown) == ([], [], 0)
    assert report.refused >= 100
