"""The hammer on an object: many processes, short leases, stopped holders, a lost engine."""

from __future__ import annotations

from pathlib import Path

from lockfast.guards.objects import ObjectGuard
from tests.guards.hammer import NAME, Plan, hammer
from tests.guards.holders import writer
from tests.guards.resources.objects import BUCKET, KEY, ObjectRegister, bucket
from tests.servers import ObjectStore, Redis


def test_no_update_is_lost_and_no_stale_write_is_applied(
    store: ObjectStore, tmp_path: Path
) -> None:
    with Redis() as engine, bucket(store.url) as client:
        ObjectGuard(client, BUCKET).put(writer(1, name=NAME), KEY, b"0 start")
        report = hammer(
            engine.url,
            ObjectRegister,
            store.url,
            Plan(str(tmp_path), increments=240, batch=4, refusals=104),
            midway=lambda: engine.restart(keep_data=False),
        )
    assert report.acknowledged >= 240
    assert report.value == report.acknowledged + report.unknown_applied
    assert (report.missing, report.stale) == ([], [])
    assert report.refused >= 100
