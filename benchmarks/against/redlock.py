"""On Redlock: five bare acquisitions and releases by our own transport, and pottery's Redlock."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection

import pottery
import redis
from redis.utils import HIREDIS_AVAILABLE

from benchmarks.against import Against
from benchmarks.duel import NAME, duel
from benchmarks.rounds import Work
from lockfast.engines.redis.keys import command
from lockfast.engines.redis.transport import Address, Login
from lockfast.engines.redlock.threads import ThreadTransport
from lockfast.engines.redlock.transport import Answer
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.url import parse
from tests.servers import RedlockSet

TTL = 30.0
OURS = "i" * 32
FREE = (
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
)


@contextmanager
def pairs(servers: RedlockSet) -> Iterator[dict[str, Work]]:
    assert HIREDIS_AVAILABLE, "redis-py would be measured without its fast parser"
    nodes = [Address(node.host, node.port) for node in servers.nodes]
    transport = ThreadTransport(nodes, Login(), now)
    clients = [redis.Redis.from_url(node.url) for node in servers.nodes]
    try:
        yield {
            "bare": _bare(transport, clients, len(clients)),
            "bare, a majority": _bare(transport, clients, len(clients) // 2 + 1),
            "pottery": _pottery(clients),
        }
    finally:
        drive(transport.close())
        for client in clients:
            client.close()


def _bare(transport: ThreadTransport, clients: Sequence[redis.Redis], enough: int) -> Work:
    """The floor: what a lock on each of five servers costs, without a token or an opinion.

    The five are there when all have answered; lockfast goes on when a majority has, and so does
    the stricter form of the floor.
    """
    for client in clients:
        client.script_load(FREE)
    digest = hashlib.sha1(FREE.encode(), usedforsecurity=False).hexdigest()
    take = [command("SET", "bare", OURS, "NX", "PX", int(TTL * 1000))] * len(clients)
    free = [command("EVALSHA", digest, 1, "bare", OURS)] * len(clients)

    def exchange(requests: Sequence[bytes], wanted: object) -> None:
        heard: list[int] = []

        def hear(node: int, answer: Answer) -> float:
            if answer != [wanted]:
                raise AssertionError(f"the bare request was answered with {answer!r}")
            heard.append(node)
            return float(len(heard) < enough)

        drive(transport.scatter(requests, 1, now() + 5.0, hear))

    def work(count: int) -> None:
        for _ in range(count):
            exchange(take, b"OK")
            exchange(free, 1)

    return work


def _pottery(clients: Sequence[redis.Redis]) -> Work:
    lock = pottery.Redlock(key="pottery", masters=set(clients), auto_release_time=TTL)

    def work(count: int) -> None:
        for _ in range(count):
            if not lock.acquire(blocking=False):
                raise AssertionError("pottery did not get a free lock")
            lock.release()

    return work


def _duel(pipe: Connection, _side: int, url: str) -> None:
    clients = [redis.Redis(host=host, port=port or 6379) for host, port in parse(url).hosts]

    def acquire() -> pottery.Redlock:
        lock = pottery.Redlock(key=NAME, masters=set(clients), auto_release_time=TTL)
        lock.acquire()
        return lock

    duel(pipe, acquire, lambda lock: lock.release())


AGAINST = Against(
    start=RedlockSet,
    pairs=pairs,
    locks={"pottery": _duel},
    members=lambda servers: [node.pid for node in servers.nodes],
)
