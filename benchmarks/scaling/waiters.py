"""Many that wait: all for one name, or each for a name of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from multiprocessing.connection import Connection
from statistics import median
from typing import NamedTuple

import lockfast
from benchmarks import hold
from benchmarks.idle import many_files
from benchmarks.planning.model import Fleet, interval
from benchmarks.rounds import percentile
from benchmarks.scaling.crowd import TTL, Crowd, Grant, crowd
from benchmarks.scaling.point import Point, Servers, Used
from benchmarks.stage import Figure, Stage
from benchmarks.workers import all_do, orders, worker
from lockfast import aio
from lockfast.port.limits import LONGEST_WAIT
from tests.servers import Redis, Replica

FEW = 100
ROUNDS = 3
WINDOWS = 8  # renewals of each waiter
PATIENCE = 240.0  # seconds
ENOUGH = 60.0  # seconds for all grants
SHORT, LONG = 6.0, 300.0  # ttls
REPLICAS = 2  # each waiter has a connection, and a process has 20,000 files


class Drained(NamedTuple):
    """A queue whose waiters were granted one after the other."""

    gap_us: float
    """From the call of release() to the return of the next client's acquire(): the median."""
    engine_us: float
    """Of its CPU for each hand-over, without what the other waiters cost meanwhile."""
    unfair: int
    """Waiters that were not granted, or not in the order of their tickets."""


def on_one_name(stage: Stage) -> Point:
    """Have all of them wait for one lock. Then compare its hand-overs with those of a hundred."""
    waiters, few = stage.count(10_000, 40), stage.count(FEW, 10)
    with ExitStack() as stack:
        server = stack.enter_context(Redis())
        replica = stack.enter_context(Replica(server.url))
        many_files(replica.pid, 2 * waiters)
        client = stack.enter_context(lockfast.connect(replica.url))
        small = stack.enter_context(crowd([replica.url], ["few"] * few, processes=2))
        big = stack.enter_context(crowd([replica.url], ["many"] * waiters))
        servers = Servers([server], [replica])
        lease = _filled(client.lock("many", ttl=TTL), big, waiters)
        stage.say(f"{waiters:,} wait for one name")
        used = servers.used(stage.count(WINDOWS, 1) * interval(LONGEST_WAIT))
        rounds = [
            _drained(small, _filled(client.lock("few", ttl=SHORT), small, few), few, servers, used)
            for _ in range(stage.count(ROUNDS, 1))
        ]
        stage.say("they are granted one after the other")
        drained = _drained(big, lease, waiters, servers, used)
    fleet = Fleet(*("redis", waiters + few + 1, 1, TTL), waiters=waiters, replicas=1, nodes=1)
    gap_us = median(each.gap_us for each in rounds)
    engine_us = median(each.engine_us for each in rounds)
    more: dict[str, Figure] = {
        "few": few,
        "handover_p50_us": round(drained.gap_us),
        "handover_p50_us_few": round(gap_us),
        "handover_engine_us": round(drained.engine_us, 1),
        "handover_engine_us_few": round(engine_us, 1),
        "handover_engine_ratio_to_few": round(drained.engine_us / engine_us, 3),
    }
    lost = drained.unfair + sum(each.unfair for each in rounds)
    return Point(fleet, used, lost, more)


def _filled(lock: lockfast.Lock, waiting: Crowd, count: int) -> lockfast.Lease:
    """Hold a lock, and have a crowd wait for it."""
    lease = lock.acquire()
    waiting.queue()
    deadline = time.monotonic() + PATIENCE
    while lease.waiters != count:  # each renewal tells
        lease.ensure_held()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{lease.waiters} of {count} wait")
        time.sleep(0.02)
    return lease


def _drained(
    waiting: Crowd, lease: lockfast.Lease, count: int, servers: Servers, resting: Used
) -> Drained:
    before, began = servers.engine_us(), time.monotonic()
    lease.release()
    grants = waiting.grants(ENOUGH)
    ended = max((grant.released for grant in grants), default=began)
    spent = servers.engine_us() - before - (ended - began) * resting.engine_cpu * 1e6
    gaps = [later.granted - sooner.released for sooner, later in pairwise(grants)]
    return Drained(percentile(gaps, 0.5) * 1e6, spent / count, _unfair(grants, count))


def _unfair(grants: Sequence[Grant], count: int) -> int:
    """Count those that were not granted, and those before whom a later one was. `grants` are in the
    order of their tickets.
    """
    overtaken = sum(sooner.granted > later.granted for sooner, later in pairwise(grants))
    return count - len(grants) + overtaken


def on_many_names(stage: Stage) -> Point:
    """Have one wait for each of so many locks, which one client of the service holds."""
    waiters = stage.count(20_000, 40)
    names = [f"hold {number}" for number in range(waiters)]
    with ExitStack() as stack:
        server = stack.enter_context(Redis())
        replicas = [stack.enter_context(Replica(server.url)) for _ in range(REPLICAS)]
        urls = [replica.url for replica in replicas]
        for replica in replicas:
            many_files(replica.pid, 2 * waiters)
        holder = stack.enter_context(worker(_holder, urls[0], waiters))
        all_do([holder], "acquire", PATIENCE)
        waiting = stack.enter_context(crowd(urls, names))
        waiting.queue()
        stage.say(f"{waiters:,} wait for a name each")
        used = Servers([server], replicas).used(stage.count(WINDOWS, 1) * interval(LONGEST_WAIT))
        (lost,) = all_do([holder], "release", PATIENCE)
        grants = waiting.grants(ENOUGH)
    fleet = Fleet(
        *("redis", waiters + 1, waiters, LONG), waiters=waiters, replicas=REPLICAS, nodes=1
    )
    return Point(fleet, used, lost + waiters - len(grants))


# --- what the holder's process does -------------------------------------------------------------


def _holder(pipe: Connection, url: str, leases: int) -> None:
    asyncio.run(_hold(pipe, url, leases))


async def _hold(pipe: Connection, url: str, leases: int) -> None:
    commands = orders(pipe)
    async with aio.connect(url) as client:
        held: list[aio.AsyncLease] = []
        while (command := await asyncio.to_thread(next, commands, None)) is not None:
            if command == "acquire":
                held = await hold.acquire(client, range(leases), LONG)
                pipe.send(len(held))
            else:
                lost = sum(lease.state is not lockfast.State.HELD for lease in held)
                for lease in held:
                    await lease.release()
                pipe.send(lost)
