"""Traps 13 to 16: a renewal keeps what is held and nothing else, and goes on after an error."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import warnings
from collections.abc import Callable
from itertools import pairwise

import pytest

import lockfast
from lockfast import LeaseLost, Loss, State, aio
from tests.servers import Proxy, Redis, wait_until
from tests.traps.holder import Holder
from tests.traps.keyspace import drop, left, watch
from tests.traps.modes import Client
from tests.traps.waiting import SOON, in_background, take_soon, wait_queue
from tests.traps.wire import via

Connect = Callable[[str], Client]
Hold = Callable[..., Holder]


# --- 13: a renewal adds to the ttl --------------------------------------------------------------


def test_trap_13_renewals_do_not_add_up(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    lock = either(server.url).lock("x", ttl=0.5)
    lease = lock.acquire()
    alone = watch(server, "x", 0.6)
    waiter = in_background(lambda: client.lock("x", ttl=0.4).acquire(timeout=30))
    wait_queue(client.lock("x"), 2)
    queued = watch(server, "x", 0.6)
    for seen in (alone, queued):
        beats = sum(later > sooner for sooner, later in pairwise(seen))
        assert beats >= 3
        assert 0 < min(seen) < max(seen) <= 500
    lease.ensure_held()
    assert lease.remaining <= 0.5
    lease.release()
    waiter.result(SOON).release()


# --- 14 and 15: a renewal of what is gone -------------------------------------------------------


def test_trap_14_the_renewal_of_a_lost_lease_does_not_keep_the_successors_alive(
    either: Connect, server: Redis, proxy: Proxy, client: lockfast.Client
) -> None:
    lease = either(server.url).lock("x", ttl=1.2).acquire()
    server.command("FLUSHALL")
    successor = either(via(proxy)).lock("x", ttl=1).acquire()
    proxy.cut()  # from now on nobody renews it rightfully
    before = left(server, "x")
    assert lease.wait_lost(SOON)  # a heartbeat has been
    assert lease.loss is Loss.GONE
    assert 0 < left(server, "x") < before
    assert client.lock("x").acquire(timeout=before / 1000 + 0.5).token > successor.token


@pytest.mark.parametrize("in_loop", [False, True])
def test_trap_14_a_holder_that_was_paused_does_not_keep_its_successors_lease_alive(
    hold: Hold, client: lockfast.Client, *, in_loop: bool
) -> None:
    paused = hold("x", 0.4, aio=in_loop)
    paused.holds()
    paused.pause()
    successor = hold("x", 0.8)
    successor.holds()
    paused.resume()
    assert paused.ask("state") == "LOST"
    assert paused.ask("release") == "EXPIRED"
    assert successor.ask("state") == "HELD"
    successor.kill()
    take_soon(client.lock("x"), 1.3)


def test_trap_15_a_renewal_does_not_bring_a_lost_lock_back(either: Connect, server: Redis) -> None:
    lock = either(server.url).lock("x", ttl=0.6)
    lease = lock.acquire()
    server.command("FLUSHALL")
    assert lease.wait_lost(SOON)
    assert lease.state is State.LOST
    assert set(watch(server, "x", 0.5)) == {-2}  # two beats later it is still not there
    assert lease.state is State.LOST
    with pytest.raises(LeaseLost) as caught:
        lease.release()
    assert caught.value.reason is Loss.GONE
    assert lock.acquire().token > lease.token


def test_trap_15_a_gap_is_seen_although_the_lock_was_free_again(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    lease = either(server.url).lock("x", ttl=1).acquire()
    server.command("FLUSHALL")
    client.lock("x").acquire().release()  # somebody was in between
    assert lease.wait_lost(SOON)
    assert lease.loss is Loss.GONE
    assert left(server, "x") == -2


# --- 16: the renewer dies of its first error ----------------------------------------------------


def test_trap_16_a_lease_outlives_a_server_that_was_down(either: Connect) -> None:
    with Redis(appendonly=True) as server:
        lease = either(server.url).lock("x", ttl=2).acquire()
        server.kill()
        wait_until(lambda: lease.state is State.JEOPARDY, "the lease is in jeopardy")
        lease.ensure_held()  # unknown is not lost
        server.start()
        wait_until(lambda: lease.state is State.HELD, "the lease is held")
        assert lease.remaining > 1  # it was renewed
        lease.release()
        assert left(server, "x") == -2


def test_trap_16_a_client_goes_on_when_its_server_was_down(either: Connect) -> None:
    with Redis() as server:
        client = either(server.url)
        client.lock("x").acquire().release()
        server.restart(keep_data=True)
        assert client.lock("x").queue() == []
        server.restart(keep_data=True)
        assert client.lock("x").try_acquire() is not None


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_trap_16_a_callback_that_fails_does_not_stop_the_renewals(
    server: Redis, client: lockfast.Client, error: type[BaseException]
) -> None:
    def fail() -> None:
        told.append("first")
        raise error

    told: list[str] = []
    kept = client.lock("kept", ttl=0.6).acquire()
    lost = client.lock("x", ttl=0.6).acquire()
    lost.on_lost(fail)
    lost.on_lost(lambda: told.append("next"))
    drop(server, "x")
    wait_until(lambda: told == ["first", "next"], "the next callback was called", SOON)
    time.sleep(0.7)  # longer than the ttl
    kept.ensure_held()


def test_trap_16_a_callback_that_fails_does_not_stop_the_renewals_of_tasks(server: Redis) -> None:
    async def fail_and_go_on() -> None:
        async with aio.connect(server.url) as client:
            kept = await client.lock("kept", ttl=0.6).acquire()
            lost = await client.lock("x", ttl=0.6).acquire()
            told = asyncio.Event()
            lost.on_lost(lambda: 1 // 0)
            lost.on_lost(told.set)
            drop(server, "x")
            await asyncio.wait_for(told.wait(), SOON)
            await asyncio.sleep(0.7)
            kept.ensure_held()

    asyncio.run(fail_and_go_on())


def test_trap_16_a_warning_that_is_an_error_does_not_stop_the_renewals(
    either: Connect, server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = either(server.url)
    kept = client.lock("kept", ttl=0.6).acquire()
    raised = []  # with its traceback, and so with the lease itself
    monkeypatch.setattr(sys, "unraisablehook", lambda what: raised.append(what.exc_value))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.lock("dropped", ttl=0.6).acquire()  # never released: lockfast warns of it
        gc.collect()  # a loop keeps its tasks' results in cycles
        time.sleep(0.7)
    kept.ensure_held()
    assert [type(each) for each in raised] == [RuntimeWarning]
    assert left(server, "dropped") == -2
