"""Traps 6, 9 and 10 on Redis. The contract has the rest: `bodies`, `patience`, 8 in `lease`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

import lockfast
from lockfast import EngineUnavailable, NotAcquired, aio
from tests.servers import Proxy, Redis
from tests.traps.keyspace import keys, left
from tests.traps.modes import Client
from tests.traps.waiting import SOON, in_background, wait_queue
from tests.traps.wire import via

Connect = Callable[[str], Client]


# --- 6: the body runs without the lock ----------------------------------------------------------


def test_trap_06_the_body_does_not_run_when_the_engine_is_gone(
    proxy: Proxy, connect: Callable[[str], lockfast.Client]
) -> None:
    async def refused() -> None:
        async with aio.connect(via(proxy)) as client:
            with pytest.raises(EngineUnavailable):
                async with client.lock("x", timeout=0.1):
                    pytest.fail("the body runs")
            proxy.heal()  # so that closing takes no time

    proxy.cut()
    with pytest.raises(EngineUnavailable), connect(via(proxy)).lock("x", timeout=0.1):
        pytest.fail("the body runs")
    asyncio.run(refused())


# --- 9: how long a wait is ----------------------------------------------------------------------


def test_trap_09_hand_overs_and_reconnections_do_not_restart_the_wait(
    either: Connect, proxy: Proxy, client: lockfast.Client
) -> None:
    lock = either(via(proxy)).lock("x", ttl=0.6)
    ahead = client.lock("x")
    turns = 10

    def pass_on() -> None:
        with ahead.acquire(timeout=30):
            time.sleep(0.1)  # a turn of each
            proxy.reset()

    with ahead:
        crowd = [in_background(pass_on) for _ in range(turns)]
        wait_queue(ahead, turns + 1)
        waiter = in_background(lambda: _waited(lock.acquire, 0.7))
        wait_queue(ahead, turns + 2)
    assert 0.7 <= waiter.result(10) < 1.2
    for each in crowd:
        each.result(10)


def _waited(acquire: Callable[..., object], timeout: float) -> float:
    began = time.monotonic()
    with pytest.raises(NotAcquired):
        acquire(timeout=timeout)
    return time.monotonic() - began


# --- 10: None or 0 make a lock without end ------------------------------------------------------


def test_trap_10_a_lock_that_nobody_renews_ends(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    lock = either(server.url).lock("x", ttl=20)
    lock.acquire()
    waiter = in_background(lambda: client.lock("x").acquire(timeout=0.3))
    wait_queue(client.lock("x"), 2)
    assert 0 < left(server, "x") <= 20_000
    for key in keys(server, "*x"):  # what belongs to it may go a little later, but goes
        ends = server.command("PTTL", key)
        assert isinstance(ends, int)
        assert 0 < ends <= 30_000
    with pytest.raises(NotAcquired):
        waiter.result(SOON)
