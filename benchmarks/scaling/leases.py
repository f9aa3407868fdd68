"""A million leases of few clients, which are connected to the engine itself.

A million `Lease` objects, with tasks that acquire them, take two cores for minutes, and nothing of
that is the engine's. So the claims and renewals here are made through the port: by the engine's own
code and scripts, and as many in a call as a heart would send.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection

from benchmarks.idle import memory_of
from benchmarks.planning.model import Fleet, batch, interval
from benchmarks.scaling.point import Point, Servers
from benchmarks.stage import Stage
from benchmarks.workers import all_do, orders, worker
from lockfast.claims.ids import Ids
from lockfast.claims.payload import write
from lockfast.engines import opener
from lockfast.port import Ask, Engine, Shape, Standing
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import now
from lockfast.url import parse
from tests.servers import Cluster, Redis

PROCESSES = 4  # one client each
TOGETHER = 256  # claims in one call
SOON = 5.0  # seconds for a call
PATIENCE = 200.0  # seconds for all claims


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
    size = round(batch(each / interval(ttl), ttl, service=False))
    with ExitStack() as stack:
        began = time.monotonic()
        pipes = [
            stack.enter_context(worker(_holder, url, range(i * each, (i + 1) * each), ttl, size))
            for i in range(PROCESSES)
        ]
        spent = sum(all_do(pipes, "claim", PATIENCE))
        seconds = time.monotonic() - began
        stage.say(f"{leases:,} claims were granted in {seconds:.0f} s")
        all_do(pipes, "renew")
        window = stage.pick(interval(ttl) / 3.0, interval(ttl))
        used = Servers(nodes).used(window)
        ends = all_do(pipes, "count")
        # What else is there has no expiry.
        kept = sum(_expiring(node) for node in nodes)
    lost, renewed, heart, memory = (sum(values) for values in zip(*ends, strict=True))
    fleet = Fleet("redis", PROCESSES, leases, ttl, service=False, nodes=len(nodes))
    more = {
        "claimed_in_s": round(seconds, 1),
        "client_us_per_claim": round(spent / leases * 1e6, 1),
        "client_us_per_renewal": round(heart / max(renewed, 1) * 1e6, 1),
        "client_bytes_per_lease": round(memory / leases),
        # Less than one: this machine was too slow for the clients, and the engine had less to do.
        "renewals_of_expected": round(renewed / (leases * window / interval(ttl)), 3),
        "in_a_call": size,
    }
    return Point(fleet, used, max(lost, leases - kept), more)


def _expiring(node: Redis) -> int:
    said = node.info("keyspace").get("db0", "expires=0")
    return int(dict(each.split("=") for each in said.split(","))["expires"])


# --- what the processes do ----------------------------------------------------------------------


def _holder(pipe: Connection, url: str, places: range, ttl: float, size: int) -> None:
    gc.disable()  # to look through millions of objects takes longer than to make them
    asyncio.run(_hold(pipe, url, places, ttl, size))


async def _hold(pipe: Connection, url: str, places: range, ttl: float, size: int) -> None:
    runtime = Aio()
    runtime.enter()
    engine = opener(parse(url), runtime)()
    held = Held(engine, size, interval(ttl))
    memory, since = memory_of(os.getpid()), 0.0
    commands = orders(pipe)
    while (command := await asyncio.to_thread(next, commands, None)) is not None:
        if command == "claim":
            spent = time.process_time()
            await held.claim(places, ttl)
            pipe.send(time.process_time() - spent)
        elif command == "renew":
            since = time.process_time()
            renewing = asyncio.create_task(held.renew())
            pipe.send("renewing")
        else:
            heart = time.process_time() - since
            renewing.cancel()
            more = (memory_of(os.getpid()) - memory) * 1024
            pipe.send((held.lost, held.renewed, heart, more))
    await engine.close()


class Held:
    """Claims of one client, and a heart for them."""

    def __init__(self, engine: Engine, size: int, interval: float) -> None:
        """Hold nothing yet. Each is renewed at this interval, `size` in a call."""
        self._engine, self._size, self._interval = engine, size, interval
        self._asks: list[Ask] = []
        self.lost = self.renewed = 0

    async def claim(self, places: range, ttl: float) -> None:
        """Claim the locks with these numbers."""
        ids, payload = Ids(), write("scale", "", now(), ttl=ttl)
        for start in range(places.start, places.stop, TOGETHER):
            part = places[start - places.start :][:TOGETHER]
            asks = [
                Ask(ids.new(), Shape(f"hold {n}", ttl), False, now() + SOON, payload)  # noqa: FBT003  # as the port has it
                for n in part
            ]
            self._count(asks, await self._engine.claim_all(asks, now() + SOON))
            self._asks += asks

    async def renew(self) -> None:
        """Renew all of them evenly, again and again."""
        began, done = now(), 0
        while True:
            for start in range(0, len(self._asks), self._size):
                due = began + (done + start) / len(self._asks) * self._interval
                if due > now():
                    await asyncio.sleep(due - now())
                asks = self._asks[start : start + self._size]
                self._count(asks, await self._engine.renew(asks, now() + SOON))
                self.renewed += len(asks)
            done += len(self._asks)

    def _count(self, asks: list[Ask], answers: list[Standing | Exception | None]) -> None:
        for ask, answer in zip(asks, answers, strict=True):
            if isinstance(answer, Standing) and answer.granted:
                ask.ticket, ask.granted = answer.ticket, True
            else:
                self.lost += 1
