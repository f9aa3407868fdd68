"""A million leases of few clients, which are connected to the engine itself.

All are real leases: each has its claim, its renewals and its place in the timetable of its client.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection

from benchmarks import hold
from benchmarks.idle import memory_of
from benchmarks.planning.model import Fleet, interval
from benchmarks.scaling.point import Point, Servers
from benchmarks.stage import Stage
from benchmarks.workers import all_do, orders, worker
from lockfast import State, aio
from tests.servers import Cluster, Redis

PROCESSES = 4  # one client each
TASKS = 20  # of each client that acquire at the same time. More would leave its heart no time
PATIENCE = 300.0  # seconds


def in_redis(stage: Stage) -> Point:
    """Hold them in one server."""
    with Redis() as server:
        return _held(stage, server.url, [server])


def in_a_cluster(stage: Stage) -> Point:
    """Hold them in a Cluster of three."""
    with Cluster() as cluster:
        return _held(stage, cluster.url, cluster.nodes)


def _held(stage: Stage, url: str, nodes: list[Redis]) -> Point:
    leases, ttl = stage.count(1_000_000, 2_000), stage.pick(300.0, 12.0)
    each = leases // PROCESSES
    with ExitStack() as stack:
        began = time.monotonic()
        pipes = [
            stack.enter_context(worker(_holder, url, range(i * each, (i + 1) * each), ttl))
            for i in range(PROCESSES)
        ]
        spent = sum(all_do(pipes, "acquire", PATIENCE))
        seconds = time.monotonic() - began
        stage.say(f"{leases:,} leases were acquired in {seconds:.0f} s")
        # Each lease is renewed once in this time, however unevenly they were acquired.
        used = Servers(nodes).used(interval(ttl))
        ends = all_do(pipes, "count")
        # What else has no expiry, and what is not there has not been renewed.
        kept = sum(_expiring(node) for node in nodes)
    fleet = Fleet("redis", PROCESSES, leases, ttl, service=False, nodes=len(nodes))
    lost, heart, memory = (sum(values) for values in zip(*ends, strict=True))
    more = {
        "acquired_in_s": round(seconds, 1),
        "client_us_per_claim": round(spent / leases * 1e6, 1),
        "client_us_per_renewal": round(heart / leases * 1e6, 1),
        "client_bytes_per_lease": round(memory / leases),
    }
    return Point(fleet, used, max(lost, leases - kept), more)


def _expiring(node: Redis) -> int:
    said = node.info("keyspace").get("db0", "expires=0")
    return int(dict(each.split("=") for each in said.split(","))["expires"])


# --- what the processes do ----------------------------------------------------------------------


def _holder(pipe: Connection, url: str, places: range, ttl: float) -> None:
    gc.disable()  # collections of millions of objects would take most of the time
    asyncio.run(_hold(pipe, url, places, ttl))


async def _hold(pipe: Connection, url: str, places: range, ttl: float) -> None:
    commands = orders(pipe)
    client = aio.connect(url)
    leases: list[aio.AsyncLease] = []
    memory, since = memory_of(os.getpid()), 0.0
    while (command := await asyncio.to_thread(next, commands, None)) is not None:
        if command == "acquire":
            spent = time.process_time()
            leases = await hold.acquire(client, places, ttl, TASKS)
            since = time.process_time()
            pipe.send(since - spent)
        else:
            lost = sum(lease.state is not State.HELD for lease in leases)
            more = (memory_of(os.getpid()) - memory) * 1024
            pipe.send((lost, time.process_time() - since, more))
    os._exit(0)  # the server ends too: nobody waits for a release of each
