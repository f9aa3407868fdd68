"""etcd's mutex: whoever waits for its turn keeps its own deadline, not that of who has the turn."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from lockfast.engines.etcd.aio import TaskMutex
from lockfast.engines.etcd.threads import ThreadMutex
from lockfast.errors import EngineUnavailable
from lockfast.runtime.drive import drive


async def _nothing() -> str:
    return "done"


def test_a_thread_gives_up_in_time_and_the_mutex_is_free_afterwards() -> None:
    mutex, began, end = ThreadMutex(time.monotonic), threading.Event(), threading.Event()

    async def long() -> None:
        began.set()
        end.wait(10)

    holder = threading.Thread(target=lambda: drive(mutex.hold(long, time.monotonic() + 60)))
    holder.start()
    began.wait(10)
    asked = time.monotonic()
    with pytest.raises(EngineUnavailable) as raised:
        drive(mutex.hold(_nothing, asked + 0.2))
    assert not raised.value.sent
    assert time.monotonic() - asked < 1.0
    end.set()
    holder.join()
    assert drive(mutex.hold(_nothing, time.monotonic() + 1.0)) == "done"


def test_a_thread_may_enter_again_and_leaves_it_once() -> None:
    mutex = ThreadMutex(time.monotonic)

    async def outer() -> str:
        inner = await mutex.hold(_nothing, time.monotonic())  # a signal handler's
        assert mutex._lock.inside()
        return inner

    assert drive(mutex.hold(outer, time.monotonic() + 1.0)) == "done"
    assert not mutex._lock.inside()


def test_an_error_leaves_the_mutex_free() -> None:
    mutex = ThreadMutex(time.monotonic)

    async def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(mutex.hold(fail, time.monotonic() + 1.0))
    assert not mutex._lock.inside()


def test_a_task_gives_up_in_time_and_the_mutex_is_free_afterwards() -> None:
    async def play() -> None:
        mutex, end = TaskMutex(time.monotonic), asyncio.Event()
        holder = asyncio.create_task(mutex.hold(end.wait, time.monotonic() + 60))
        await asyncio.sleep(0)
        asked = time.monotonic()
        with pytest.raises(EngineUnavailable):
            await mutex.hold(_nothing, asked + 0.2)
        assert time.monotonic() - asked < 1.0
        end.set()
        await holder
        assert await mutex.hold(_nothing, time.monotonic() + 1.0) == "done"

    asyncio.run(play())
