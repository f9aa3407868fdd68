"""What the page on redis-py says about asyncio, and about locks that end too early."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import lockfast
from tests.migration.page import programs
from tests.migration.pair import check_waits, queued
from tests.migration.peers import Peer, redis_py
from tests.migration.worker import LONG, Worker
from tests.servers import wait_until

BEFORE, BOTH, AFTER, ASYNCIO = "Before", "Deploy 1", "After", "Deploy 1 with asyncio"


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    with redis_py() as peer:
        yield peer


@pytest.mark.parametrize(
    ("first", "second"),
    [(BEFORE, ASYNCIO), (ASYNCIO, BEFORE), (ASYNCIO, AFTER), (AFTER, ASYNCIO), (BOTH, ASYNCIO)],
)
def test_the_second_waits_for_the_first(
    peer: Peer, first: str, second: str, tmp_path: Path
) -> None:
    code = programs(peer.page, peer.swaps)
    waits = peer.waits if BEFORE in {first, second} else queued(peer.url)
    check_waits(code[first], code[second], waits, tmp_path)


def test_the_end_of_the_old_ttl_lets_nobody_in_but_old_processes(
    peer: Peer, tmp_path: Path
) -> None:
    code = programs(peer.page, peer.swaps)
    short = code[BOTH].replace("timeout=60, blocking", "timeout=1, blocking")
    assert short != code[BOTH]
    with lockfast.connect(peer.url) as client, Worker(short, tmp_path) as one:
        one.wait_works()
        with Worker(code[AFTER], tmp_path) as two, Worker(code[BEFORE], tmp_path) as old:
            old.wait_works()  # while the first one works, whose old lock has ended
            old.finish()
            wait_until(lambda: len(client.lock("invoices").queue()) == 2, "deploy 2 waits", LONG)
            assert not two.works()
            assert "LockNotOwnedError" in one.fails()
            two.wait_works()
            two.finish()


def test_a_lease_that_is_lost_during_the_wait_for_the_old_lock_stops_the_work(
    peer: Peer, tmp_path: Path
) -> None:
    code = programs(peer.page, {**peer.swaps, "ttl=30": "ttl=1"})
    with lockfast.connect(peer.url) as client, Worker(code[BEFORE], tmp_path) as one:
        one.wait_works()
        with Worker(code[BOTH], tmp_path) as two:
            wait_until(peer.waits, "deploy 1 waits for the old lock", LONG)
            (holder,) = client.lock("invoices").holders()
            assert client.revoke(holder, "a test")
            time.sleep(2)  # two renewals at least would have been due
            one.finish()
            assert "LeaseLost" in two.fails()
            assert not two.said
