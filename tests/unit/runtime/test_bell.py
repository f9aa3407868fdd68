"""The bell: it ends the sleep of a listener, in both modes."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator

import pytest

from lockfast.runtime.aio import Aio
from lockfast.runtime.base import Bell, Runtime, now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads

LONG = 20.0
Run = Callable[[Callable[[Bell], Coroutine[object, object, None]]], None]


@pytest.fixture(params=["threads", "asyncio"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs what is done with a bell of either mode."""

    async def play(
        runtime: Runtime, part: Callable[[Bell], Coroutine[object, object, None]]
    ) -> None:
        bell = runtime.bell()
        try:
            await part(bell)
        finally:
            bell.close()
            bell.ring()  # nobody is there any more: no error

    if request.param == "threads":
        yield lambda part: drive(play(Threads(), part))
    else:
        yield lambda part: asyncio.run(play(Aio(), part))


async def sleep(
    bell: Bell, seconds: float | None, watched: int | None = None
) -> tuple[bool, float]:
    """Sleep; tell whether there is something to read, and how long it took."""
    began = time.monotonic()
    readable = await bell.wait(None if seconds is None else now() + seconds, watched)
    return readable, time.monotonic() - began


def test_a_ring_ends_a_sleep_from_another_thread(run: Run) -> None:
    async def part(bell: Bell) -> None:
        timer = threading.Timer(0.05, bell.ring)
        timer.start()
        readable, took = await sleep(bell, None)
        timer.join()
        assert not readable
        assert took < LONG

    run(part)


def test_a_ring_before_the_sleep_is_not_lost_and_ends_only_one(run: Run) -> None:
    async def part(bell: Bell) -> None:
        for _ in range(3):
            bell.ring()
        assert (await sleep(bell, LONG))[1] < LONG / 2
        assert (await sleep(bell, 0.1))[1] > 0.09

    run(part)


def test_the_time_ends_a_sleep(run: Run) -> None:
    async def part(bell: Bell) -> None:
        readable, took = await sleep(bell, 0.1)
        assert not readable
        assert 0.09 < took < LONG / 2
        assert (await sleep(bell, -1.0))[1] < LONG / 2

    run(part)


def test_something_to_read_ends_a_sleep_and_is_told(run: Run) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:

        async def part(bell: Bell) -> None:
            assert not (await sleep(bell, 0.05, ours.fileno()))[0]
            timer = threading.Timer(0.05, theirs.send, [b"!"])
            timer.start()
            readable, took = await sleep(bell, LONG, ours.fileno())
            timer.join()
            assert readable
            assert took < LONG / 2
            ours.recv(16)
            bell.ring()
            assert not (await sleep(bell, LONG, ours.fileno()))[0]

        run(part)
