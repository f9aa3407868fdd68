"""Traps 1 and 2: a claim is known by its id, so that no reply that was lost leaves an orphan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import lockfast
from lockfast import EngineUnavailable, State, aio
from tests.servers import Proxy, Redis
from tests.traps.holder import Holder
from tests.traps.modes import Client
from tests.traps.waiting import SOON, in_background, take_soon, wait_queue
from tests.traps.wire import is_claim, is_resignation, via

Connect = Callable[[str], Client]
Hold = Callable[..., Holder]


# --- 1: the reply is lost, and the retry takes its own claim for another's -----------------------


def test_trap_01_a_lost_reply_to_the_claim_still_gives_the_lease(
    either: Connect, proxy: Proxy, client: lockfast.Client
) -> None:
    lock = either(via(proxy)).lock("x")
    proxy.lose_reply_matching(is_claim)
    lease = lock.acquire(timeout=5)
    assert [each.id for each in client.lock("x").queue()] == [lease.id]
    lease.ensure_held()
    lease.release()
    assert client.lock("x").try_acquire() is not None


def test_trap_01_a_lost_reply_does_not_make_a_free_lock_look_busy(
    either: Connect, proxy: Proxy, client: lockfast.Client
) -> None:
    lock = either(via(proxy)).lock("x")
    proxy.lose_reply_matching(is_claim)
    lease = lock.try_acquire()
    assert lease is not None
    assert [each.id for each in client.lock("x").queue()] == [lease.id]
    lease.release()
    assert client.lock("x").try_acquire() is not None


def test_trap_01_a_lost_reply_to_a_waiter_does_not_queue_it_twice(
    either: Connect, proxy: Proxy, client: lockfast.Client
) -> None:
    first = client.lock("x").acquire()
    lock = either(via(proxy)).lock("x")
    proxy.lose_reply_matching(is_claim)
    waiter = in_background(lambda: lock.acquire(timeout=10))
    wait_queue(client.lock("x"), 2)
    first.release()
    lease = waiter.result(SOON)
    assert [each.id for each in client.lock("x").queue()] == [lease.id]
    lease.release()
    assert client.lock("x").try_acquire() is not None


def test_trap_01_a_claim_that_nobody_answered_leaves_no_orphan(
    either: Connect, proxy: Proxy, client: lockfast.Client
) -> None:
    lock = either(via(proxy)).lock("x")
    proxy.lose_reply_matching(is_claim, count=None)
    with pytest.raises(EngineUnavailable):
        lock.try_acquire()
    take_soon(client.lock("x"))


def test_trap_01_a_lost_reply_to_the_release_is_no_error(
    either: Connect, proxy: Proxy, client: lockfast.Client
) -> None:
    lease = either(via(proxy)).lock("x").acquire()
    proxy.lose_reply_matching(is_resignation)
    lease.release()
    assert lease.state is State.RELEASED
    assert client.lock("x").try_acquire() is not None


# --- 2: cancelled after the grant ----------------------------------------------------------------


def test_trap_02_a_task_cancelled_after_the_grant_leaves_no_orphan(
    proxy: Proxy, client: lockfast.Client
) -> None:
    async def cancelled() -> None:
        async with aio.connect(via(proxy)) as other:
            await (await other.lock("warm").acquire()).release()
            proxy.delay(0, replies=0.5)
            task = asyncio.create_task(other.lock("x").try_acquire())
            await asyncio.to_thread(wait_queue, client.lock("x"), 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # Asked while the client lives, so that not its closing has done it.
            await asyncio.to_thread(take_soon, client.lock("x"), 0.4)
            proxy.heal()

    asyncio.run(cancelled())


def test_trap_02_a_task_cancelled_in_the_moment_of_its_grant_leaves_no_orphan(
    server: Redis, client: lockfast.Client
) -> None:
    async def cancelled() -> None:
        lease = client.lock("x").acquire()
        async with aio.connect(server.url) as other:

            async def wait() -> aio.AsyncLease:
                return await other.lock("x").acquire(timeout=60)

            task = asyncio.create_task(wait())
            await asyncio.to_thread(wait_queue, client.lock("x"), 2)
            lease.release()  # the engine grants to the task, and the loop does not know it yet
            assert [each.granted for each in client.lock("x").queue()] == [True]
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(take_soon, client.lock("x"))

    asyncio.run(cancelled())


@pytest.mark.parametrize("in_loop", [False, True])
def test_trap_02_ctrl_c_after_the_grant_leaves_no_orphan(
    hold: Hold, proxy: Proxy, client: lockfast.Client, *, in_loop: bool
) -> None:
    proxy.hold_requests(is_claim)
    other = hold("x", 30, url=via(proxy), aio=in_loop)
    proxy.wait_held()
    proxy.delay(0, replies=0.5)
    proxy.release_requests()
    wait_queue(client.lock("x"), 1)
    other.interrupt()
    assert other.line() == "interrupted"  # it lives on: no exit handler has released anything
    take_soon(client.lock("x"))


@pytest.mark.parametrize("in_loop", [False, True])
def test_trap_02_ctrl_c_in_the_queue_leaves_nobody_in_the_way(
    hold: Hold, client: lockfast.Client, *, in_loop: bool
) -> None:
    lease = client.lock("x").acquire()
    other = hold("x", 30, aio=in_loop)
    wait_queue(client.lock("x"), 2)
    other.interrupt()
    assert other.line() == "interrupted"
    wait_queue(client.lock("x"), 1)
    lease.release()
    assert client.lock("x").try_acquire() is not None
