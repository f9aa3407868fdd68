"""One process keeps many leases alive: what it loses, and what its heart and the server cost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

from benchmarks.stage import Result, Stage, cpu_of
from benchmarks.workers import answer, orders, worker
from lockfast import State, aio

TASKS = 200  # that acquire at the same time
SAMPLE = 1000  # leases that the engine is asked about
PATIENCE = 600.0  # seconds: an engine that writes to a disk takes a minute for ten thousand


class Kept(NamedTuple):
    """What the holding process saw at the end."""

    lost: int
    """Not HELD by their own state, or unknown to the engine; the latter for a sample."""
    cpu: float
    server_cpu: float


def run(stage: Stage) -> Result:
    side = stage.against
    leases = stage.count(side.leases, side.leases // 50)
    ttl, seconds = stage.pick(30.0, 12.0), stage.pick(90.0, 4.5)
    with side.start() as server, worker(_holder, server.url, leases, ttl) as pipe:
        stage.say(f"acquiring {leases:,} leases of {ttl:g} s")
        pipe.send("acquire")
        acquire_seconds: float = answer(pipe, PATIENCE)
        stage.say(f"holding them for {seconds:g} s")
        pipe.send((seconds, side.members(server)))
        kept: Kept = answer(pipe, seconds + PATIENCE)
    return Result(
        figures={
            "lost": kept.lost,
            "heart_cpu": round(kept.cpu / seconds, 4),
            "server_cpu": round(kept.server_cpu / seconds, 4),
            "leases": leases,
            "ttl": ttl,
            "seconds": seconds,
            "acquire_seconds": round(acquire_seconds, 2),
        },
        head=("", "leases", "lost", "heart, of a core", "server, of a core", "acquired in"),
        rows=[
            (
                f"held for {seconds:g} s",
                f"{leases:,}",
                str(kept.lost),
                f"{kept.cpu / seconds:.3f}",
                f"{kept.server_cpu / seconds:.3f}",
                f"{acquire_seconds:.1f} s",
            )
        ],
    )


# --- what the process does ----------------------------------------------------------------------


def _holder(pipe: Connection, url: str, leases: int, ttl: float) -> None:
    commands = orders(pipe)
    next(commands)
    asyncio.run(_hold(pipe, commands, url, leases, ttl))


async def _hold(
    pipe: Connection,
    commands: Iterator[tuple[float, Sequence[int]]],
    url: str,
    leases: int,
    ttl: float,
) -> None:
    async with aio.connect(url) as client:
        began = time.monotonic()
        held = await acquire(client, range(leases), ttl)
        pipe.send(time.monotonic() - began)
        seconds, members = next(commands)
        cpu, server_cpu = time.process_time(), cpu_of(members)
        await asyncio.sleep(seconds)
        cpu, server_cpu = time.process_time() - cpu, cpu_of(members) - server_cpu
        lost = {lease.id for lease in held if lease.state is not State.HELD}
        lost |= await _absent(client, held)
        pipe.send(Kept(len(lost), cpu, server_cpu))


async def acquire(
    client: aio.AsyncClient, places: Iterable[int], ttl: float
) -> list[aio.AsyncLease]:
    """Acquire the locks with these numbers, some at the same time."""
    held: list[aio.AsyncLease] = []
    numbers = iter(places)

    async def some() -> None:
        # One by one: if an acquisition fails, the others must not be dropped, because a warning for
        # each of them would hide the error.
        for number in numbers:
            lease = await client.lock(f"hold {number}", ttl=ttl).acquire(timeout=60)
            held.append(lease)

    await asyncio.gather(*(some() for _ in range(TASKS)))
    return held


async def _absent(client: aio.AsyncClient, held: list[aio.AsyncLease]) -> set[str]:
    """Ask the engine itself, for some of them: is this very claim there?"""
    sample = random.sample(held, min(SAMPLE, len(held)))
    return {
        lease.id
        for lease in sample
        if [holder.id for holder in await client.lock(lease.name).holders()] != [lease.id]
    }
