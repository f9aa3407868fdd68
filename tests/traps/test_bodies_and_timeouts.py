"""Traps 6 to 10: a body runs with the lock or not at all, and times mean what they say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

import lockfast
from lockfast import EngineUnavailable, LeaseLost, NotAcquired, aio
from tests.servers import Proxy, Redis, wait_until
from tests.traps.keyspace import keys, left
from tests.traps.modes import Client
from tests.traps.waiting import SOON, in_background, wait_queue
from tests.traps.wire import via

Connect = Callable[[str], Client]


# --- 6: the body runs without the lock ----------------------------------------------------------


def test_trap_06_the_body_of_with_does_not_run_without_the_lock(client: lockfast.Client) -> None:
    lock = client.lock("x", timeout=0.1)
    ran = False
    with lock:
        other = client.lock("x", timeout=0.1)
        with pytest.raises(NotAcquired), other:
            ran = True
        with pytest.raises(NotAcquired), other.acquire(timeout=0.1):
            ran = True
        with pytest.raises(TypeError), other.try_acquire():  # type: ignore[union-attr]  # the trap
            ran = True
    assert not ran


def test_trap_06_the_body_of_async_with_does_not_run_without_the_lock(
    server: Redis, client: lockfast.Client
) -> None:
    async def refused() -> bool:
        ran = False
        async with aio.connect(server.url) as aclient:
            lock = aclient.lock("x", timeout=0.1)
            with pytest.raises(NotAcquired):
                async with lock:
                    ran = True
            with pytest.raises(NotAcquired):
                async with lock.acquire(timeout=0.1):
                    ran = True
            with pytest.raises(TypeError):
                async with await lock.try_acquire():  # type: ignore[union-attr]  # the trap
                    ran = True
        return ran

    with client.lock("x"):
        assert not asyncio.run(refused())


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


def test_trap_06_the_body_does_not_run_under_a_lease_that_is_lost_already(
    server: Redis, client: lockfast.Client
) -> None:
    async def too_late() -> None:
        async with aio.connect(server.url) as other:
            lease = await other.lock("x", ttl=0.6).acquire()
            server.command("FLUSHALL")
            assert await lease.wait_lost(SOON)
            with pytest.raises(LeaseLost):
                async with lease:
                    pytest.fail("the body runs")

    lease = client.lock("x", ttl=0.6).acquire()
    server.command("FLUSHALL")
    assert lease.wait_lost(SOON)
    with pytest.raises(LeaseLost), lease:
        pytest.fail("the body runs")
    asyncio.run(too_late())


# --- 7: the release's error masks the body's ----------------------------------------------------


class BodyError(Exception):
    """What goes wrong in the body."""


@pytest.mark.parametrize("fault", ["lost", "cut"])
def test_trap_07_a_failed_release_does_not_mask_the_bodys_error(
    server: Redis, proxy: Proxy, connect: Callable[[str], lockfast.Client], fault: str
) -> None:
    def fail() -> None:
        if fault == "lost":
            server.command("FLUSHALL")
        else:
            proxy.cut()
        raise BodyError

    lock = connect(via(proxy)).lock("x", ttl=0.5)
    with pytest.raises(BodyError) as caught, lock:
        fail()
    assert "the release failed too" in "".join(caught.value.__notes__)
    proxy.heal()
    with pytest.raises(BodyError) as caught, lock.acquire(timeout=SOON):
        fail()
    assert "the release failed too" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("fault", ["lost", "cut"])
def test_trap_07_a_failed_release_does_not_mask_the_error_of_an_async_body(
    server: Redis, proxy: Proxy, fault: str
) -> None:
    async def body(client: aio.AsyncClient) -> None:
        async with client.lock("x", ttl=0.5):
            if fault == "lost":
                server.command("FLUSHALL")
            else:
                proxy.cut()
            raise BodyError

    async def fail() -> None:
        async with aio.connect(via(proxy)) as client:
            with pytest.raises(BodyError) as caught:
                await body(client)
            assert "the release failed too" in "".join(caught.value.__notes__)
            proxy.heal()  # so that closing takes no time

    asyncio.run(fail())


def test_trap_07_a_body_that_went_well_hears_of_the_failed_release(
    server: Redis, client: lockfast.Client
) -> None:
    async def lose() -> None:
        async with aio.connect(server.url) as other, other.lock("x"):
            server.command("FLUSHALL")

    with pytest.raises(LeaseLost), client.lock("x"):
        server.command("FLUSHALL")
    with pytest.raises(LeaseLost):
        asyncio.run(lose())


# --- 8 and 9: how long a wait is ----------------------------------------------------------------


def test_trap_08_a_wait_of_half_a_second_takes_half_a_second(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    lock = either(server.url).lock("x")
    with client.lock("x"):
        began = time.monotonic()
        with pytest.raises(NotAcquired) as caught:
            lock.acquire(timeout=0.5)
        assert 0.5 <= time.monotonic() - began < 1.5
    assert 0.5 <= caught.value.waited < 1.5


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


def test_trap_09_a_claim_that_has_to_be_made_again_does_not_restart_the_wait(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    lock = either(server.url).lock("x", ttl=0.3)
    client.lock("x").acquire()
    [key] = keys(server, "*=x")
    holder = server.command("GET", key)
    assert isinstance(holder, bytes)
    waiter = in_background(lambda: _waited(lock.acquire, 0.7))
    # Each time, an operator clears the queue, and leaves the holder alone.
    while not waiter.done():
        server.command(
            "EVAL",
            "redis.call('FLUSHALL') return redis.call('SET', KEYS[1], ARGV[1], 'PX', 30000)",
            *(1, key, holder),
        )
        wait_until(lambda: waiter.done() or len(lock.queue()) == 2, "it is in the queue again")
    assert 0.7 <= waiter.result() < 1.4


def _waited(acquire: Callable[..., object], timeout: float) -> float:
    began = time.monotonic()
    with pytest.raises(NotAcquired):
        acquire(timeout=timeout)
    return time.monotonic() - began


# --- 10: None or 0 make a lock without end ------------------------------------------------------


@pytest.mark.parametrize("ttl", [None, "1", True, 0, -1, float("nan"), float("inf")])
def test_trap_10_a_lock_without_an_end_is_refused(ttl: float) -> None:
    with lockfast.connect("redis://localhost") as client, pytest.raises((TypeError, ValueError)):
        client.lock("x", ttl=ttl)
    with pytest.raises((TypeError, ValueError)):
        aio.connect("redis://localhost").lock("x", ttl=ttl)


@pytest.mark.parametrize("timeout", ["1", True, -1, float("nan")])
def test_trap_10_a_wait_that_makes_no_sense_is_refused(
    either: Connect, server: Redis, timeout: float
) -> None:
    with pytest.raises((TypeError, ValueError)):
        either(server.url).lock("x").acquire(timeout=timeout)
    assert not keys(server, "*=x")


def test_trap_10_without_a_timeout_a_wait_goes_on_until_the_grant(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    lock = either(server.url).lock("x", ttl=0.3)
    with client.lock("x") as lease:
        waiter = in_background(lambda: lock.acquire(timeout=None))
        wait_queue(client.lock("x"), 2)
        time.sleep(0.7)  # longer than a waiter lives without a renewal
        assert not waiter.done()
        assert len(client.lock("x").queue()) == 2
    assert waiter.result(SOON).token > lease.token


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
