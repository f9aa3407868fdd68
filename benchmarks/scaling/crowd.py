"""Clients of the service that wait, each with a connection of its own, in several processes."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import NamedTuple

from benchmarks.idle import OneOfMany, many_files
from benchmarks.workers import all_do, orders, worker
from lockfast import aio

PROCESSES = 4
AT_ONCE = 50  # clients of a process that connect, or queue, at the same time
PAUSE = 0.15
"""Seconds between so many that queue. Faster, they would keep a replica so busy that it answered
the holder's renewals too late."""
TTL = 30.0
now = time.monotonic  # the same clock in all processes


class Grant(NamedTuple):
    """A waiter's turn."""

    ticket: int
    granted: float
    released: float
    """When it began to release."""


class Crowd:
    """The clients. They are told to queue, and tell what they got."""

    def __init__(self, pipes: Sequence[Connection]) -> None:
        """Talk to these processes."""
        self._pipes = pipes

    def queue(self) -> None:
        """Have all clients ask for their lock."""
        all_do(self._pipes, "queue")

    def grants(self, timeout: float) -> list[Grant]:
        """Wait until all were granted, or until the time is over."""
        return sorted(grant for each in all_do(self._pipes, timeout, 2 * timeout) for grant in each)


@contextmanager
def crowd(urls: Sequence[str], names: Sequence[str], processes: int = PROCESSES) -> Iterator[Crowd]:
    """Connect a client for each of the names, in turn to each of the URLs."""
    with ExitStack() as stack:
        shares = [names[number::processes] for number in range(processes)]
        pipes = [stack.enter_context(worker(_waiters, urls, share)) for share in shares]
        all_do(pipes, "connect")
        yield Crowd(pipes)
        for pipe in pipes:  # so that all of them end at the same time
            pipe.close()


# --- what the processes do ----------------------------------------------------------------------


def _waiters(pipe: Connection, urls: Sequence[str], names: Sequence[str]) -> None:
    # As in `idle`: this process stands for thousands, which would stand still together.
    gc.disable()
    many_files(os.getpid(), 2 * len(names))
    asyncio.run(_wait(pipe, urls, names))


async def _wait(pipe: Connection, urls: Sequence[str], names: Sequence[str]) -> None:
    clients = [
        aio.connect(urls[place % len(urls)], engine=OneOfMany()) for place in range(len(names))
    ]
    locks = [client.lock(name, ttl=TTL) for client, name in zip(clients, names, strict=True)]
    tasks: list[asyncio.Task[Grant]] = []
    commands = orders(pipe)
    while (command := await asyncio.to_thread(next, commands, None)) is not None:
        if command == "connect":
            await _connect(locks)
            pipe.send("connected")
        elif command == "queue":
            tasks = await _queue(locks)
            pipe.send("queued")
        else:
            done, _ = await asyncio.wait(tasks, timeout=command)
            pipe.send([task.result() for task in done])
    os._exit(0)  # to close thousands of clients would take a minute


async def _connect(locks: Sequence[aio.AsyncLock]) -> None:
    places = iter(locks)

    async def some() -> None:
        for lock in places:
            await lock.holders()

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


async def _queue(locks: Sequence[aio.AsyncLock]) -> list[asyncio.Task[Grant]]:
    tasks = []
    for place, lock in enumerate(locks):
        tasks.append(asyncio.create_task(_turn(lock)))
        if place % AT_ONCE == 0:
            await asyncio.sleep(PAUSE)
    return tasks


async def _turn(lock: aio.AsyncLock) -> Grant:
    lease = await lock.acquire()
    grant = Grant(lease.ticket, granted=now(), released=now())
    await lease.release()
    return grant
