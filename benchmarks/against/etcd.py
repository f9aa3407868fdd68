"""On etcd: two transactions of grpc alone, and aetcd's lock, which asks for a lease each time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import aetcd
import grpc

from benchmarks.against import Against
from benchmarks.duel import NAME, TTL, duel_in_a_task
from benchmarks.rounds import Work
from lockfast.engines.etcd.messages import (
    CREATE,
    EQUAL,
    GRANT,
    TXN,
    compare,
    delete,
    done,
    find,
    put,
    txn,
)
from lockfast.engines.etcd.protobuf import number, numbers
from lockfast.url import parse
from tests.servers import EtcdCluster


@contextmanager
def pairs(cluster: EtcdCluster) -> Iterator[dict[str, Work]]:
    """All of them ask the same member, the first of the URL."""
    address = cluster.nodes[0].address
    with grpc.insecure_channel(address) as channel, asyncio.Runner() as runner:
        client, lock = runner.run(_open(cluster.url, "pair"))
        yield {"bare": _bare(channel), "aetcd": _aetcd(runner, lock)}
        runner.run(client.close())


def _bare(channel: grpc.Channel) -> Work:
    """The floor: both transactions are written once; of a reply only the outcome is looked at."""
    call: Any = channel.unary_unary(TXN, None, None)
    grant: Any = channel.unary_unary(GRANT, None, None)
    lease = numbers(grant(number(1, 3600)))[2]
    key = b"bare/" + b"0" * 32
    claim = txn(compare(CREATE, EQUAL, 0, key), [put(key, b"p" * 120, lease), find(key)], [])
    resign = txn(b"", [delete(key)], [])

    def work(count: int) -> None:
        for _ in range(count):
            if not done(call(claim, timeout=5.0)).succeeded:
                raise AssertionError("the bare claim was not granted at once")
            call(resign, timeout=5.0)

    return work


async def _open(url: str, name: str) -> tuple[aetcd.Client, Callable[[], aetcd.Lock]]:
    host, port = parse(url).hosts[0]
    client = aetcd.Client(host=host, port=port)
    await client.connect()
    return client, lambda: client.lock(name.encode(), int(TTL))


def _aetcd(runner: asyncio.Runner, make: Callable[[], aetcd.Lock]) -> Work:
    async def pairs_of(count: int) -> None:
        for _ in range(count):
            lock = make()
            await lock.acquire()
            await lock.release()

    return lambda count: runner.run(pairs_of(count))


def _duel(pipe: Connection, _side: int, url: str) -> None:
    asyncio.run(_duel_in_a_task(pipe, url))


async def _duel_in_a_task(pipe: Connection, url: str) -> None:
    client, make = await _open(url, NAME)

    async def acquire() -> aetcd.Lock:
        lock = make()
        await lock.acquire(timeout=None)
        return lock

    def release(lock: aetcd.Lock) -> Awaitable[object]:
        released: Awaitable[object] = lock.release()
        return released

    await duel_in_a_task(pipe, acquire, release)
    await client.close()


AGAINST = Against(
    start=EtcdCluster,
    pairs=pairs,
    locks={"aetcd": _duel},
    members=lambda cluster: [node.pid for node in cluster.nodes],
)
