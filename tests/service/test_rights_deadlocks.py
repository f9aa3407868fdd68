"""Deadlocks of subjects that may see each other's locks, and of those that may not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import lockfast
from tests.servers import Redis
from tests.service.served import SOON, Served
from tests.service.test_rights import CONFIG, ORDERS


@pytest.mark.parametrize(
    ("prefix", "expected"), [("orders/", lockfast.Deadlock), ("shared", lockfast.NotAcquired)]
)
def test_a_deadlock_is_found_with_inspect_and_ends_by_its_timeout_without(
    tmp_path: Path, prefix: str, expected: type[Exception]
) -> None:
    errors: list[Exception] = []
    both = threading.Barrier(2)

    def work(url: str, first: str, second: str) -> None:
        with lockfast.connect(url) as client, client.lock(first):
            both.wait(SOON)
            try:
                client.lock(second).acquire(timeout=4.0).release()
            except (lockfast.Deadlock, lockfast.NotAcquired) as error:
                errors.append(error)

    with Redis() as redis, Served(tmp_path, redis.url, CONFIG) as served:
        url = f"lockfast://:{ORDERS}@127.0.0.1:{served.port}"
        names = (f"{prefix}a", f"{prefix}b")
        threads = [threading.Thread(target=work, args=(url, *names[::way])) for way in (1, -1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * SOON)
    assert errors
    assert {type(error) for error in errors} == {expected}
