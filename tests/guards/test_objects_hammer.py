"""The hammer on an object: many processes, short leases, stopped holders, a lost engine.

The store writes some eighty objects in a second, so that 20,000 take minutes: LOCKFAST_INCREMENTS
asks for them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lockfast.guards.objects import ObjectGuard
from tests.guards.hammer import Plan, hammer
from tests.guards.holders import writer
from tests.guards.resources.objects import BUCKET, KEY, ObjectRegister, bucket
from tests.guards.smithy import NAME
from tests.servers import ObjectStore, Redis

INCREMENTS = int(os.environ.get("LOCKFAST_INCREMENTS", "240"))


@pytest.mark.timeout(120 + INCREMENTS / 20)
def test_no_update_is_lost_and_no_stale_write_is_applied(
    store: ObjectStore, tmp_path: Path
) -> None:
    with Redis() as engine, bucket(store.url) as client:
        ObjectGuard(client, BUCKET).put(writer(1, name=NAME), KEY, b"0 start")
        report = hammer(
            engine.url,
            ObjectRegister,
            store.url,
            Plan(
                str(tmp_path), increments=INCREMENTS, batch=min(60, INCREMENTS // 60), refusals=104
            ),
            midway=lambda: engine.restart(keep_data=False),
        )
    assert report.acknowledged >= INCREMENTS
    assert report.value == report.acknowledged + report.unknown_applied
    assert (report.missing, report.stale) == ([], [])
    assert report.refused >= 100
