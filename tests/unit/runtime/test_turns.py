"""Turns and the mutex: who waits keeps its own deadline, and an interruption loses no turn."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

import pytest

from lockfast.runtime.aio import Aio
from lockfast.runtime.base import Crowded
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import ThreadMutex, ThreadTurns


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
    with pytest.raises(Crowded):
        drive(mutex.hold(_nothing, asked + 0.2))
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
        mutex, end = Aio(time.monotonic).mutex(), asyncio.Event()
        holder = asyncio.create_task(mutex.hold(end.wait, time.monotonic() + 60))
        await asyncio.sleep(0)
        asked = time.monotonic()
        with pytest.raises(Crowded):
            await mutex.hold(_nothing, asked + 0.2)
        assert time.monotonic() - asked < 1.0
        end.set()
        await holder
        assert await mutex.hold(_nothing, time.monotonic() + 1.0) == "done"

    asyncio.run(play())


# A signal may also come where Python cannot pass an exception on, and only reports it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_raises_loses_no_turn() -> None:
    turns = ThreadTurns(1, time.monotonic)
    struck = 0

    def strike(_: int, __: object) -> None:
        raise KeyboardInterrupt

    async def enter(times: int) -> None:
        for _ in range(times):
            await turns.hold(_nothing, time.monotonic() + 1.0)

    before = signal.signal(signal.SIGALRM, strike)
    try:
        for round_ in range(1500):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + round_ % 97 * 1e-6)
                drive(enter(1000))
            except KeyboardInterrupt:
                struck += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert struck > 1000
    assert drive(turns.hold(_nothing, time.monotonic())) == "done"
