"""Ten thousand wait for one lock: a handoff there, against one where ten wait."""

from __future__ import annotations

import asyncio
import random
import time
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import NamedTuple

from benchmarks.rounds import percentile
from benchmarks.stage import Result, Stage
from benchmarks.workers import answer, worker
from lockfast import aio

FEW = 10
PAUSE = 0.005  # between two handoffs
now = time.monotonic


class Order(NamedTuple):
    """What a crowd saw of its queue."""

    by_ticket: bool
    """Every grant had a higher ticket than the one before, and nobody with a lower one waits."""
    by_arrival: bool
    """The tasks came to work in the order in which they had queued: none lost its place."""
    grants: int


def run(stage: Stage) -> Result:
    many, stand = stage.count(10_000, 300), stage.pick(60.0, 2.0)
    ttl = stage.pick(10.0, 1.5)
    with (
        stage.against.start() as server,
        worker(_crowd, server.url, FEW, ttl) as small,
        worker(_crowd, server.url, many, ttl) as big,
    ):
        _gather(small)
        alone = [_handoff(small) for _ in range(stage.count(200, 20))]
        stage.say(f"{many:,} have queued in {_gather(big):.1f} s; they stand for {stand:g} s")
        time.sleep(stand)
        times: dict[Connection, list[float]] = {small: [], big: []}
        crowds, count = [small, big], stage.count(400, 30)
        for number in range(count):
            random.shuffle(crowds)
            for crowd in crowds:
                times[crowd].append(_handoff(crowd))
            if number % 100 == 0:
                stage.say(f"handoff {number} of {count} in each")
        orders = [_order(pipe) for pipe in crowds]
    rows = {f"{FEW} alone": alone, str(FEW): times[small], f"{many:,}": times[big]}
    p50, p99 = (
        {name: percentile(values, share) * 1e6 for name, values in rows.items()}
        for share in (0.5, 0.99)
    )
    few, most = str(FEW), f"{many:,}"
    return Result(
        figures={
            "p50_ratio_to_10_waiters": round(p50[most] / p50[few], 3),
            "grants_in_ticket_order": all(order.by_ticket for order in orders),
            "grants_in_arrival_order": all(order.by_arrival for order in orders),
            "grants": sum(order.grants for order in orders),
            "waiters": many,
            "stood_seconds": stand,
            "p50_us": round(p50[most], 1),
            "p99_us": round(p99[most], 1),
            "p50_us_10_waiters": round(p50[few], 1),
            "p99_us_10_waiters": round(p99[few], 1),
            "p50_us_10_waiters_alone": round(p50[f"{FEW} alone"], 1),
        },
        head=("waiters", "p50 µs", "p99 µs", "handoffs"),
        rows=[
            (name, f"{p50[name]:,.0f}", f"{p99[name]:,.0f}", str(len(values)))
            for name, values in rows.items()
        ],
    )


def _gather(crowd: Connection) -> float:
    crowd.send("gather")
    seconds: float = answer(crowd)
    return seconds


def _handoff(crowd: Connection) -> float:
    time.sleep(PAUSE)
    crowd.send("handoff")
    gap: float = answer(crowd)
    return gap


def _order(crowd: Connection) -> Order:
    crowd.send("order")
    order: Order = answer(crowd)
    return order


# --- what the process does ----------------------------------------------------------------------


def _crowd(pipe: Connection, url: str, waiters: int, ttl: float) -> None:
    asyncio.run(Crowd(waiters).stand(pipe, url, ttl))


class Crowd:
    """One holder and its waiters: tasks of one process, with one client."""

    def __init__(self, waiters: int) -> None:
        self._waiters = waiters
        self._grants: list[tuple[int, int]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._lease: aio.AsyncLease | None = None
        self._go = asyncio.Event()
        self._at_work = asyncio.Event()
        self._released = self._acquired = 0.0

    async def stand(self, pipe: Connection, url: str, ttl: float) -> None:
        """Do what the parent says until it closes the pipe."""
        commands: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        loop.add_reader(pipe.fileno(), _receive, pipe, commands)
        async with aio.connect(url) as client:
            lock = client.lock(f"a crowd of {self._waiters}", ttl=ttl)
            pipe.send("ready")
            while command := await commands.get():
                if command == "gather":
                    pipe.send(await self._gather(lock))
                elif command == "handoff":
                    pipe.send(await self._handoff())
                else:
                    pipe.send(await self._order(lock))
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _gather(self, lock: aio.AsyncLock) -> float:
        """Have everybody queue; the holder's renewal tells when all of them stand there."""
        began = now()
        self._tasks = [
            asyncio.create_task(self._queue_again_and_again(lock, number))
            for number in range(self._waiters + 1)
        ]
        # A lease tells how many wait when it is asked; it has no event for that.
        while self._lease is None or self._lease.waiters != self._waiters:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return now() - began

    async def _queue_again_and_again(self, lock: aio.AsyncLock, number: int) -> None:
        while True:
            lease = await lock.acquire()
            self._acquired = now()
            self._grants.append((lease.ticket, number))
            self._lease = lease
            self._at_work.set()
            await self._go.wait()
            self._go.clear()
            self._released = now()
            await lease.release()
            # The crowd stays as large as it was, but not by disturbing the handoff.
            await self._at_work.wait()

    async def _handoff(self) -> float:
        self._at_work.clear()
        self._go.set()
        await self._at_work.wait()
        return self._acquired - self._released

    async def _order(self, lock: aio.AsyncLock) -> Order:
        shown = await lock.queue()
        tickets = [ticket for ticket, _ in self._grants]
        waiting = [each.ticket for each in shown if not each.granted]
        return Order(
            by_ticket=all(a < b for a, b in pairwise([*tickets, *waiting])),
            by_arrival=all(
                number == place % (self._waiters + 1)
                for place, (_, number) in enumerate(self._grants)
            ),
            grants=len(self._grants),
        )


def _receive(pipe: Connection, commands: asyncio.Queue[str]) -> None:
    try:
        commands.put_nowait(pipe.recv())
    except EOFError:
        asyncio.get_running_loop().remove_reader(pipe.fileno())
        commands.put_nowait("")
