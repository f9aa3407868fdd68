"""On Redis: a raw socket that sends our own two scripts, and the other Python locks."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

import pottery
import redis
import redis_lock
from redis.asyncio import BlockingConnectionPool
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.lock import Lock as AsyncLock
from redis.lock import Lock
from redis.utils import HIREDIS_AVAILABLE

from benchmarks.against import Against
from benchmarks.brawl import POLL, brawl
from benchmarks.duel import HOLD, NAME, Held, duel, now
from benchmarks.overheard import overhear
from benchmarks.rounds import Work
from benchmarks.workers import orders
from tests.servers import Cluster, Redis
from tests.servers.resp import pack

TTL = 30.0
CHANNEL = "benchmark"
MESSAGE, LAST = b"m" * 49, b"the last one"  # as long as lockfast's own pushes


@contextmanager
def pairs(server: Redis) -> Iterator[dict[str, Work]]:
    """Give every other way to acquire and release a free lock, by name."""
    assert HIREDIS_AVAILABLE, "redis-py would be measured without its fast parser"
    with _raw(server) as raw, redis.Redis.from_url(server.url) as client:
        theirs = client.lock("redis-py", timeout=TTL, blocking=False)
        strict = redis_lock.Lock(client, "python-redis-lock", expire=int(TTL))
        redlock = pottery.Redlock(key="pottery", masters={client}, auto_release_time=TTL)
        yield {
            "raw": raw,
            "redis-py": _loop(theirs.acquire, theirs.release),
            "python-redis-lock": _loop(lambda: strict.acquire(blocking=False), strict.release),
            "pottery": _loop(lambda: redlock.acquire(blocking=False), redlock.release),
        }


def _loop(acquire: Callable[[], object], release: Callable[[], object]) -> Work:
    def work(count: int) -> None:
        for _ in range(count):
            assert acquire()
            release()

    return work


@contextmanager
def task_pairs(server: Redis, runner: asyncio.Runner, tasks: int) -> Iterator[dict[str, Work]]:
    """redis-py's asyncio lock in the set-ups that may suit it."""
    clients = {
        "redis-py": AsyncRedis.from_url(server.url),
        "redis-py, RESP2": AsyncRedis.from_url(server.url, protocol=2),
        "redis-py, 32 connections": AsyncRedis.from_pool(
            BlockingConnectionPool.from_url(server.url, max_connections=32, timeout=60)
        ),
    }
    yield {
        name: _tasks(
            [client.lock(f"{name} {i}", timeout=TTL, blocking=False) for i in range(tasks)], runner
        )
        for name, client in clients.items()
    }
    for client in clients.values():
        runner.run(client.aclose())


def _tasks(locks: list[AsyncLock], runner: asyncio.Runner) -> Work:
    async def loop(lock: AsyncLock, count: int) -> None:
        for _ in range(count):
            assert await lock.acquire()
            await lock.release()

    async def all_of_them(count: int) -> None:
        await asyncio.gather(*(loop(lock, count) for lock in locks))

    return lambda count: runner.run(all_of_them(count // len(locks)))


@contextmanager
def plain_socket(url: str) -> Iterator[socket.socket]:
    """Connect, with nothing around the socket."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(None)
        yield sock


@contextmanager
def _raw(server: Redis) -> Iterator[Work]:
    """The floor: both packets are packed once, and of a reply only its last bytes are looked at."""
    claim, resign = (script.packed() for script in overhear(server, TTL))
    with plain_socket(server.url) as sock:
        send, receive = sock.sendall, sock.recv

        def work(count: int) -> None:
            for _ in range(count):
                send(claim)
                if receive(4096)[:3] != b"$16":
                    raise AssertionError("the raw claim was not granted at once")
                send(resign)
                if receive(4096)[-4:] != b":1\r\n":
                    raise AssertionError("the raw resignation found nothing")

        yield work


# --- the handoff --------------------------------------------------------------------------------


def _redis_py(pipe: Connection, _side: int, url: str) -> None:
    with redis.Redis.from_url(url) as client:

        def acquire() -> Lock:
            lock: Lock = client.lock(f"{NAME} of redis-py", timeout=TTL)
            lock.acquire()
            return lock

        duel(pipe, acquire, lambda lock: lock.release())


def _polling(pipe: Connection, url: str) -> None:
    with redis.Redis.from_url(url) as client:
        lock: Lock = client.lock("fight of redis-py", timeout=TTL, sleep=POLL)
        brawl(pipe, lock.acquire, lambda _: lock.release())


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


AGAINST = Against(
    start=Redis,
    pairs=pairs,
    locks={"redis-py": _redis_py},
    floor="raw",
    unit=("publish", _publish),
    tasks=task_pairs,
    polling={"redis-py": _polling},
    leases=100_000,
    cluster=Cluster,
)
