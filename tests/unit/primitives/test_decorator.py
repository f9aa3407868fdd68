"""A lock that skips, used as if it did not only decorate."""

from __future__ import annotations

import asyncio

import pytest

import lockfast
from lockfast import Deadlock, aio

SAID = "can only decorate functions.*try_acquire"


def test_a_lock_that_skips_says_what_to_use_for_a_block() -> None:
    with lockfast.connect("memory://") as client:
        lock = client.lock("x", on_busy="skip")
        with pytest.raises(AttributeError, match=f"{SAID}.*'acquire'"):
            lock.acquire()  # type: ignore[attr-defined]  # that is the point
        with pytest.raises(TypeError, match=SAID), lock:  # type: ignore[attr-defined]  # the same
            pass


async def _async_skip() -> None:
    async with aio.connect("memory://") as client:
        lock = client.lock("x", on_busy="skip")
        with pytest.raises(TypeError, match=SAID):
            async with lock:  # type: ignore[attr-defined]  # the same
                pass


def test_an_async_lock_that_skips_says_so_too() -> None:
    asyncio.run(_async_skip())


def test_a_thread_that_would_wait_for_itself_is_told_of_rlock() -> None:
    with lockfast.connect("memory://") as client, client.lock("x"):
        with pytest.raises(Deadlock, match=r"client\.rlock\(\)") as caught:
            client.lock("x").acquire()
        assert "lockfast.aio" not in str(caught.value)


async def _blocking_in_a_loop() -> None:
    said = r"In an event loop, use lockfast\.aio"
    with (
        lockfast.connect("memory://") as client,
        client.lock("x"),
        pytest.raises(Deadlock, match=said),
    ):
        client.lock("x").acquire()
    async with aio.connect("memory://") as other, other.lock("x"):
        with pytest.raises(Deadlock) as caught:
            await other.lock("x").acquire()
        assert "lockfast.aio" not in str(caught.value)


def test_a_blocking_client_in_an_event_loop_is_told_of_the_other_one() -> None:
    asyncio.run(_blocking_in_a_loop())
