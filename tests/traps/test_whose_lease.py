"""Traps 3 and 11 on Redis's wire. The contract has them too, with 4 and 5: `whose_lease`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

import lockfast
from lockfast import EngineUnavailable, LeaseLost, NotAcquired
from tests.servers import Proxy, Redis
from tests.traps.holder import Holder
from tests.traps.modes import Client, Lease, Loop
from tests.traps.waiting import in_background, wait_queue
from tests.traps.wire import is_claim, via

Connect = Callable[[str], Client]
Hold = Callable[..., Holder]


# --- 3: a release that failed cannot be tried again ----------------------------------------------


def test_trap_03_a_release_across_a_cut_can_be_tried_again(
    server: Redis, proxy: Proxy, connect: Callable[[str], lockfast.Client], stack: ExitStack
) -> None:
    loop = stack.enter_context(Loop())
    other = stack.enter_context(loop.connect(via(proxy)))
    mine, others = connect(via(proxy)).lock("x", ttl=1.5), other.lock("y", ttl=1.5)
    leases: list[Lease] = [mine.acquire(), others.acquire()]
    proxy.cut()
    # Both modes at once: a release gives up only when the lease would have ended by itself.
    for attempt in [in_background(lease.release) for lease in leases]:
        with pytest.raises(EngineUnavailable):
            attempt.result(10)
    proxy.heal()
    for lease in leases:
        lease.release()
    client = connect(server.url)
    assert client.lock("x").try_acquire() is not None
    assert client.lock("y").try_acquire() is not None


# --- 11: an error path deletes another's lock ----------------------------------------------------


def test_trap_11_no_error_path_deletes_anothers_lock(
    either: Connect, server: Redis, proxy: Proxy, hold: Hold
) -> None:
    lock = either(via(proxy)).lock("x")
    stale = lock.acquire()
    server.command("FLUSHALL")
    other = hold("x", 30)
    token = other.holds()

    def untouched() -> bool:
        held = [each.ticket for each in lock.queue()] == [token]
        return held and other.ask("state") == "HELD"

    with pytest.raises(LeaseLost):
        stale.release()
    assert untouched()
    assert lock.try_acquire() is None
    assert untouched()
    with pytest.raises(NotAcquired):
        lock.acquire(timeout=0.1)
    wait_queue(lock, 1)
    assert untouched()
    proxy.lose_reply_matching(is_claim, count=None)
    with pytest.raises(EngineUnavailable):
        lock.try_acquire()
    with pytest.raises(EngineUnavailable):
        lock.acquire(timeout=0.1)
    proxy.heal()
    wait_queue(lock, 1)
    assert untouched()
