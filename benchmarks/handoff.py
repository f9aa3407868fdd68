"""Two processes fight for one lock: from the release in one to the work in the other."""

from __future__ import annotations

import asyncio
import socket
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import NamedTuple

import redis

import lockfast
from benchmarks.against.redis import plain_socket
from benchmarks.rounds import interleave, percentile
from benchmarks.stage import Result, Stage
from benchmarks.workers import answer, orders, two
from lockfast import aio
from tests.servers.resp import pack

NAME = "handoff"
HOLD = 0.005
TTL = 30.0
CHANNEL = "benchmark"
MESSAGE, LAST = b"m" * 49, b"the last one"  # as long as lockfast's own pushes
COLOURS = ("threads", "asyncio")
now = time.monotonic  # CLOCK_MONOTONIC: the same in every process of a machine


class Held(NamedTuple):
    """One time at work."""

    acquired: float
    released: float
    """Just before the release was called."""


def run(stage: Stage) -> Result:
    seconds = stage.pick(0.6, 0.25)
    with stage.start() as server, ExitStack() as stack:
        mains = {
            "publish": _publish,
            "threads": _threads,
            "asyncio": _asyncio,
            "redis-py": _redis_py,
        }
        turns = {
            name: _turn(
                stack.enter_context(two(main, server.url)),
                # It polls ten times a second: a short turn would see no handoff at all.
                seconds if name != "redis-py" else stage.pick(1.0, 0.5),
                _handoffs if name != "publish" else _deliveries,
            )
            for name, main in mains.items()
        }
        results = interleave(turns, stage.count(12, 2), stage.say)
    units = [statistics.median(gaps) for gaps in results["publish"]]
    figures = {name: _figures(rounds, units) for name, rounds in results.items()}
    publish = figures.pop("publish")
    return Result(
        figures={
            "p50_gap_over_publish": max(
                figures[colour]["p50_gap_over_publish"] for colour in COLOURS
            ),
            "publish_p50_us": publish["p50_us"],
            "publish_p99_us": publish["p99_us"],
            "hold_ms": HOLD * 1000,
            **figures,
        },
        head=("gap", "p50 µs", "p99 µs", "p50 over publish", "samples"),
        rows=[
            (
                name,
                f"{each['p50_us']:,.0f}",
                f"{each['p99_us']:,.0f}",
                f"{each['p50_gap_over_publish']:.2f}",
                str(sum(map(len, results[name]))),
            )
            for name, each in {"publish": publish, **figures}.items()
        ],
    )


def _figures(rounds: list[list[float]], units: list[float]) -> dict[str, float]:
    every = [gap for gaps in rounds for gap in gaps]
    return {
        "p50_us": round(percentile(every, 0.5) * 1e6, 1),
        "p99_us": round(percentile(every, 0.99) * 1e6, 1),
        # Round by round: neighbours in time had the same weather.
        "p50_gap_over_publish": round(
            statistics.median(
                statistics.median(gaps) / unit
                for gaps, unit in zip(rounds, units, strict=True)
                if gaps
            ),
            3,
        ),
    }


def _turn(
    pipes: tuple[Connection, Connection],
    seconds: float,
    gaps: Callable[[list[list[Held]]], list[float]],
) -> Callable[[], list[float]]:
    def turn() -> list[float]:
        for pipe in pipes:
            pipe.send(seconds)
        return gaps([answer(pipe) for pipe in pipes])

    return turn


def _handoffs(sides: list[list[Held]]) -> list[float]:
    """Put both sides into one order; count only where the lock went to the other."""
    merged = sorted((held, side) for side, records in enumerate(sides) for held in records)
    gaps = [
        taken.acquired - left.released
        for (left, giver), (taken, taker) in pairwise(merged)
        if giver != taker
    ]
    assert all(gap > 0 for gap in gaps), "two held the lock at once"
    return gaps


def _deliveries(sides: list[list[Held]]) -> list[float]:
    """Put each message's two ends together."""
    sent, received = sides
    return [there.acquired - here.released for here, there in zip(sent, received, strict=True)]


# --- what the processes do ----------------------------------------------------------------------


def _threads(pipe: Connection, _side: int, url: str) -> None:
    with lockfast.connect(url) as client:
        lock = client.lock(NAME, ttl=TTL)
        lock.acquire().release()
        for seconds in orders(pipe):
            records, end = [], now() + seconds
            while now() < end:
                lease = lock.acquire()
                acquired = now()
                time.sleep(HOLD)
                records.append(Held(acquired, now()))
                lease.release()
            pipe.send(records)


def _asyncio(pipe: Connection, _side: int, url: str) -> None:
    async def fight(lock: aio.AsyncLock, seconds: float) -> list[Held]:
        records, end = [], now() + seconds
        while now() < end:
            lease = await lock.acquire()
            acquired = now()
            await asyncio.sleep(HOLD)
            records.append(Held(acquired, now()))
            await lease.release()
        return records

    with asyncio.Runner() as runner:
        client = aio.connect(url)
        lock = client.lock(NAME, ttl=TTL)
        runner.run(fight(lock, 0.01))
        for seconds in orders(pipe):
            pipe.send(runner.run(fight(lock, seconds)))
        runner.run(client.close())


def _redis_py(pipe: Connection, _side: int, url: str) -> None:
    with redis.Redis.from_url(url) as client:
        for seconds in orders(pipe):
            records, end = [], now() + seconds
            while now() < end:
                lock = client.lock(f"{NAME} of redis-py", timeout=TTL)
                lock.acquire()
                acquired = now()
                time.sleep(HOLD)
                records.append(Held(acquired, now()))
                lock.release()
            pipe.send(records)


def _publish(pipe: Connection, side: int, url: str) -> None:
    """The unit: one side publishes on a raw socket, the other sits in a receive."""
    with plain_socket(url) as sock:
        if side == 0:
            _publisher(pipe, sock)
        else:
            sock.sendall(pack("SUBSCRIBE", CHANNEL))
            sock.recv(4096)
            _subscriber(pipe, sock)


def _publisher(pipe: Connection, sock: socket.socket) -> None:
    message, last = pack("PUBLISH", CHANNEL, MESSAGE), pack("PUBLISH", CHANNEL, LAST)
    for seconds in orders(pipe):
        records, end = [], now() + seconds
        while now() < end:
            time.sleep(HOLD)
            sent = now()
            sock.sendall(message)
            sock.recv(4096)
            records.append(Held(sent, sent))
        sock.sendall(last)
        sock.recv(4096)
        pipe.send(records)


def _subscriber(pipe: Connection, sock: socket.socket) -> None:
    for _ in orders(pipe):
        records = []
        while True:
            data = sock.recv(4096)
            received = now()
            records += [Held(received, received)] * data.count(MESSAGE)
            if LAST in data:
                break
        pipe.send(records)
