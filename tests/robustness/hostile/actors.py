"""Actors: clients of both kinds that do everything, in a process of their own."""

from __future__ import annotations

import asyncio
import logging
import random
import resource
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import lockfast
from lockfast import LockfastError, State, aio
from tests.robustness.hostile.judge import LATE, Judge

TTL = 2.0  # seconds
LOOKING, LEAST = 5.0, 0.25  # seconds for each of two looks, and for a wait at the least
HANGING = 15.0  # seconds after the end within which every actor has ended
ACTORS = 10
NAMES = ["a", "b", "c", "d{x}", "é", "f", "g", "h i", *map(str, range(20))]


class Part(NamedTuple):
    """What a process of actors is told."""

    kind: str
    url: str
    seconds: float
    seed: int
    shared: bool
    """Whether the engine has semaphores and read/write locks."""


def play(part: Part, pipe: Connection) -> None:
    """Play, report, and end."""
    judge = Judge()
    log = logging.getLogger("lockfast")
    log.addHandler(judge)
    log.propagate = False
    threading.excepthook = lambda args: judge.violate(f"a thread died: {args.exc_value!r}")
    sys.unraisablehook = lambda args: judge.violate(f"unraisable: {args.exc_value!r}")
    (_threads if part.kind == "threads" else _tasks)(part, judge, pipe)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    pipe.send((dict(judge.ends), judge.violations, judge.latest, peak))


def _threads(part: Part, judge: Judge, pipe: Connection) -> None:
    client = lockfast.connect(part.url)
    until = time.monotonic() + part.seconds
    actors = [Blocking(client, judge, part, number) for number in range(ACTORS)]
    threads = [threading.Thread(target=actor.run, args=(until,), daemon=True) for actor in actors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(until + HANGING - time.monotonic(), 0.0))
        if thread.is_alive():
            frame = sys._current_frames()[thread.ident or 0]  # there is no other way
            judge.violate("an actor hangs:\n" + "".join(traceback.format_stack(frame)))
    pipe.send(None)
    pipe.recv()
    held = [lease for actor in actors for lease in actor.hold()]
    pipe.send(len(held))
    pipe.recv()
    time.sleep(TTL + LATE)
    for lease in held:
        if lease.state is State.HELD:
            judge.violate(f"a lease is believed in {TTL + LATE} s after the last reply")
    with judge.call("close", 2.0):
        client.close()


def _tasks(part: Part, judge: Judge, pipe: Connection) -> None:
    asyncio.run(_play(part, judge, pipe))


async def _play(part: Part, judge: Judge, pipe: Connection) -> None:
    def said(_: object, context: dict[str, Any]) -> None:
        judge.violate(f"the loop was told: {context}")

    asyncio.get_running_loop().set_exception_handler(said)
    client = aio.connect(part.url)
    until = time.monotonic() + part.seconds
    actors = [Awaiting(client, judge, part, number) for number in range(ACTORS)]
    jobs = [asyncio.create_task(actor.run(until)) for actor in actors]
    _, hanging = await asyncio.wait(jobs, timeout=part.seconds + HANGING)
    if hanging:
        judge.violate(f"{len(hanging)} actors hang: {hanging}")
    pipe.send(None)
    await asyncio.to_thread(pipe.recv)
    held = [lease for actor in actors for lease in await actor.hold()]
    pipe.send(len(held))
    await asyncio.to_thread(pipe.recv)
    await asyncio.sleep(TTL + LATE)
    for lease in held:
        if lease.state is State.HELD:
            judge.violate(f"a lease is believed in {TTL + LATE} s after the last reply")
    with judge.call("close", 2.0):
        await client.close()


class Choices:
    """What an actor does next, by its own seed."""

    def __init__(self, judge: Judge, part: Part, number: int) -> None:
        self.judge = judge
        self.part = part
        self.chance = random.Random(part.seed * 1000 + number)  # noqa: S311  # to be played again
        self.number = number

    def lock(self, client: Any) -> Any:  # noqa: ANN401  # of either kind
        """Choose a lock."""
        name, kind = self.chance.choice(NAMES), self.chance.randrange(6)
        if kind == 0 and self.part.shared:
            return client.semaphore(f"s{name}", 3, ttl=TTL)
        if kind == 1 and self.part.shared:
            return client.rwlock(f"r{name}", ttl=TTL).read()
        return client.lock(name, ttl=TTL)

    def pauses(self) -> list[float]:
        """Choose how long to hold, in pieces: now and then over a renewal or two."""
        return [0.002] if self.chance.random() < 0.96 else [0.4] * self.chance.randint(1, 5)

    def wait(self) -> float:
        """Choose for how long to wait at most."""
        return self.chance.choice([0.05, 0.3, 1.0])


class Blocking(Choices):
    """An actor in a thread."""

    def __init__(self, client: lockfast.Client, judge: Judge, part: Part, number: int) -> None:
        super().__init__(judge, part, number)
        self.client = client

    def run(self, until: float) -> None:
        """Go on until then."""
        while time.monotonic() < until:
            deed = self.chance.random()
            if deed < 0.05:
                with self.judge.call("look", 2 * LOOKING):
                    self.client.lock(self.chance.choice(NAMES)).queue()
            elif deed < 0.07:
                with self.judge.call("list", 2 * LOOKING):
                    self.client.inspect()
            elif deed < 0.08:
                with self.judge.call("guarantees", LOOKING):
                    self.client.guarantees()
            else:
                self._lock()

    def _lock(self) -> None:
        lock, wait, lease = self.lock(self.client), self.wait(), None
        if self.chance.random() < 0.3:
            with self.judge.call("try", TTL):
                lease = lock.try_acquire()
        else:
            with self.judge.call("acquire", max(wait, LEAST)):
                lease = lock.acquire(timeout=wait)
        if lease is None:
            return
        for pause in self.pauses():
            self.judge.lease(lease, TTL)
            time.sleep(pause)
        with self.judge.call("release", TTL):
            lease.release()

    def hold(self) -> list[lockfast.Lease]:
        """Hold something at the end."""
        for _ in range(5):
            try:
                return [self.client.lock(f"last{self.number}", ttl=TTL).acquire(timeout=1.0)]
            except LockfastError:
                continue
        return []


class Awaiting(Choices):
    """An actor in a task."""

    def __init__(self, client: aio.AsyncClient, judge: Judge, part: Part, number: int) -> None:
        super().__init__(judge, part, number)
        self.client = client

    async def run(self, until: float) -> None:
        """Go on until then."""
        while time.monotonic() < until:
            deed = self.chance.random()
            if deed < 0.05:
                with self.judge.call("look", 2 * LOOKING):
                    await self.client.lock(self.chance.choice(NAMES)).queue()
            elif deed < 0.07:
                with self.judge.call("list", 2 * LOOKING):
                    await self.client.inspect()
            elif deed < 0.08:
                with self.judge.call("guarantees", LOOKING):
                    await self.client.guarantees()
            else:
                await self._lock()

    async def _lock(self) -> None:
        lock, wait, lease = self.lock(self.client), self.wait(), None
        if self.chance.random() < 0.3:
            with self.judge.call("try", TTL):
                lease = await lock.try_acquire()
        else:
            with self.judge.call("acquire", max(wait, LEAST)):
                lease = await lock.acquire(timeout=wait)
        if lease is None:
            return
        for pause in self.pauses():
            self.judge.lease(lease, TTL)
            await asyncio.sleep(pause)
        with self.judge.call("release", TTL):
            await lease.release()

    async def hold(self) -> list[aio.AsyncLease]:
        """Hold something at the end."""
        for _ in range(5):
            try:
                return [await self.client.lock(f"last{self.number}", ttl=TTL).acquire(timeout=1.0)]
            except LockfastError:
                continue
        return []
