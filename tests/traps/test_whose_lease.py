"""Traps 3 to 5 and 11: a lease is one acquisition, released when the engine says so, by anybody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack

import pytest

import lockfast
from lockfast import EngineError, EngineUnavailable, LeaseLost, Loss, NotAcquired, aio
from tests.servers import Proxy, Redis
from tests.traps.holder import Holder
from tests.traps.modes import Client, Lease, Loop
from tests.traps.waiting import SOON, in_background, take_soon, wait_queue
from tests.traps.wire import is_claim, via

Connect = Callable[[str], Client]
Hold = Callable[..., Holder]


# --- 3: a release that failed cannot be tried again ----------------------------------------------


def test_trap_03_a_release_that_was_refused_can_be_tried_again(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    server.command("ACL", "SETUSER", "ann", "on", ">secret", "~*", "&*", "+@all")
    lease = either(f"redis://ann:secret@{server.address}").lock("x").acquire()
    server.command("ACL", "SETUSER", "ann", "-evalsha", "-eval")
    with pytest.raises(EngineError, match="NOPERM"):
        lease.release()
    assert client.lock("x").try_acquire() is None
    server.command("ACL", "SETUSER", "ann", "+evalsha", "+eval")
    lease.release()
    assert client.lock("x").try_acquire() is not None


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


def test_trap_03_a_release_that_failed_is_made_up_for_by_itself(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    server.command("ACL", "SETUSER", "ann", "on", ">secret", "~*", "&*", "+@all")
    lease = either(f"redis://ann:secret@{server.address}").lock("x").acquire()
    server.command("ACL", "SETUSER", "ann", "-evalsha", "-eval")
    with pytest.raises(EngineError):
        lease.release()
    server.command("ACL", "SETUSER", "ann", "+evalsha", "+eval")
    take_soon(client.lock("x"))


# --- 4 and 5: whose lease it is ------------------------------------------------------------------


def test_trap_04_a_lease_can_be_released_from_another_thread_or_task(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    lock = either(server.url).lock("x")
    lease = in_background(lock.acquire).result(SOON)
    in_background(lease.release).result(SOON)
    assert client.lock("x").try_acquire() is not None


def test_trap_04_a_lock_shared_between_threads_releases_nobody_elses_lease(
    client: lockfast.Client,
) -> None:
    shared = client.lock("x", timeout=30)
    inside: list[str] = []

    def enter() -> None:
        for _ in range(20):
            with shared as lease:
                inside.append(lease.id)
                assert [each.id for each in shared.holders()] == inside == [lease.id]
                inside.pop()

    threads = [in_background(enter) for _ in range(4)]
    for thread in threads:
        thread.result(10)


def test_trap_04_a_thread_that_waits_in_vain_releases_nobody_elses_lease(
    client: lockfast.Client,
) -> None:
    shared = client.lock("x", timeout=0.1)

    def enter_in_vain() -> None:
        with pytest.raises(NotAcquired), shared:
            pass

    with shared as lease:
        in_background(enter_in_vain).result(SOON)
        lease.ensure_held()
        assert [each.id for each in shared.holders()] == [lease.id]


def test_trap_04_a_lock_shared_between_tasks_releases_nobody_elses_lease(server: Redis) -> None:
    async def share() -> None:
        async with aio.connect(server.url) as client:
            shared = client.lock("x", timeout=30)
            inside: list[str] = []

            async def enter() -> None:
                for _ in range(20):
                    async with shared as lease:
                        inside.append(lease.id)
                        assert [each.id for each in await shared.holders()] == inside == [lease.id]
                        inside.pop()

            await asyncio.gather(*(enter() for _ in range(4)))

    asyncio.run(share())


def test_trap_04_a_block_that_ends_in_another_task_releases_its_own_lease(
    server: Redis, client: lockfast.Client
) -> None:
    async def end_elsewhere() -> None:
        async with aio.connect(server.url) as other:
            shared = other.lock("x")

            async def resource() -> AsyncGenerator[None]:
                async with shared:
                    yield

            # So do fixtures and dependencies of frameworks: begun in one task, ended in another.
            first, second = resource(), resource()
            await asyncio.create_task(anext(first))
            await asyncio.create_task(first.aclose())
            assert client.lock("x").queue() == []
            await asyncio.create_task(anext(second))
            server.command("FLUSHALL")
            async with shared as lease:
                await asyncio.create_task(second.aclose())
                lease.ensure_held()
                assert [each.id for each in client.lock("x").queue()] == [lease.id]

    asyncio.run(end_elsewhere())


def test_trap_04_a_stack_that_ends_in_another_thread_or_order_releases_its_own_lease(
    server: Redis, client: lockfast.Client
) -> None:
    shared = client.lock("x")
    first, second = ExitStack(), ExitStack()
    first.enter_context(shared)
    in_background(first.close).result(SOON)
    assert shared.queue() == []
    second.enter_context(shared)
    server.command("FLUSHALL")
    with ExitStack() as third:
        lease = third.enter_context(shared)
        with pytest.raises(LeaseLost):
            second.close()  # it was there first, and so is not the last that was entered
        lease.ensure_held()
        assert [each.id for each in shared.queue()] == [lease.id]


def test_trap_05_two_acquisitions_through_one_lock_are_two_leases(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    lock = either(server.url).lock("x")
    first = lock.acquire()
    waiter = in_background(lambda: lock.acquire(timeout=10))
    wait_queue(lock, 2)
    first.release()
    second = waiter.result(SOON)
    assert (first.id, first.token) != (second.id, second.token)
    first.release()  # again, which is nothing
    second.ensure_held()
    assert client.lock("x").try_acquire() is None
    second.release()
    assert client.lock("x").try_acquire() is not None


def test_trap_05_a_second_acquisition_does_not_make_the_first_ones_loss_its_own(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    lock = either(server.url).lock("x")
    first = lock.acquire()
    server.command("FLUSHALL")
    second = lock.acquire()
    with pytest.raises(LeaseLost) as caught:
        first.release()
    assert caught.value.reason is Loss.GONE
    second.ensure_held()
    assert [each.id for each in client.lock("x").queue()] == [second.id]


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
