"""A duel: two processes take one lock in turns, each told by its pipe how long to go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import NamedTuple, TypeVar

from benchmarks.workers import orders

T = TypeVar("T")
NAME = "handoff"
HOLD = 0.005
TTL = 30.0
now = time.monotonic  # CLOCK_MONOTONIC: the same in every process of a machine


class Held(NamedTuple):
    """One time at work."""

    acquired: float
    released: float
    """Just before the release was called."""


def duel(pipe: Connection, acquire: Callable[[], T], release: Callable[[T], object]) -> None:
    """Take turns with blocking calls; `release` gets what `acquire` returned."""
    release(acquire())  # what has to be opened is opened here
    for seconds in orders(pipe):
        records, end = [], now() + seconds
        while now() < end:
            lease = acquire()
            acquired = now()
            time.sleep(HOLD)
            records.append(Held(acquired, now()))
            release(lease)
        pipe.send(records)


async def duel_in_a_task(
    pipe: Connection,
    acquire: Callable[[], Awaitable[T]],
    release: Callable[[T], Awaitable[object]],
) -> None:
    """Take turns with awaited calls. The loop goes on between two orders: a session may need it."""
    await release(await acquire())
    commands = orders(pipe)
    while (seconds := await asyncio.to_thread(next, commands, None)) is not None:
        records, end = [], now() + seconds
        while now() < end:
            lease = await acquire()
            acquired = now()
            await asyncio.sleep(HOLD)
            records.append(Held(acquired, now()))
            await release(lease)
        pipe.send(records)
