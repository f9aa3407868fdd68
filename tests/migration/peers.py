"""The old locks: their servers, and how to see that a process waits for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from kazoo.client import KazooClient

from lockfast.engines import mysql, postgres
from tests.servers import MariaDB, Postgres, Redis, ZooKeeper


class Peer(NamedTuple):
    """A page, its server, and what the server shows of the old lock."""

    page: str
    url: str
    """Where lockfast's locks are."""
    swaps: Mapping[str, str]
    """What the page writes, and what it is called here."""
    waits: Callable[[], bool]
    """Tell whether one process holds the old lock and another one waits for it."""
    env: Mapping[str, str]


def _clients(server: Redis, command: str) -> int:
    """Count the connections whose last command it was."""
    listed = server.command("CLIENT", "LIST")
    assert isinstance(listed, bytes)
    return listed.decode().count(f" cmd={command} ")


@contextmanager
def redis_py() -> Iterator[Peer]:
    """redis-py's Lock: both the holder and the waiter have sent SET, and nothing since."""
    with Redis() as server:
        swaps = {"redis://localhost:6379": server.url}
        yield Peer("redis-py.md", server.url, swaps, lambda: _clients(server, "set") == 2, {})


@contextmanager
def python_redis_lock() -> Iterator[Peer]:
    """python-redis-lock: the waiter is in BLPOP."""
    with Redis() as server:
        swaps = {"redis://localhost:6379": server.url}
        waits = lambda: _clients(server, "blpop") == 1  # noqa: E731  # as in the other peers
        yield Peer("python-redis-lock.md", server.url, swaps, waits, {})


@contextmanager
def kazoo() -> Iterator[Peer]:
    """kazoo's Lock: the holder and the waiter have a node each."""
    with ZooKeeper() as server:
        looker = KazooClient(hosts=server.address)
        looker.start()
        path = "/locks/invoices"
        with closing(looker):
            try:
                yield Peer(
                    "kazoo.md",
                    server.url,
                    {"localhost:2181": server.address},
                    lambda: bool(looker.exists(path)) and len(looker.get_children(path)) == 2,
                    {},
                )
            finally:
                looker.stop()


@contextmanager
def advisory() -> Iterator[Peer]:
    """Advisory locks of PostgreSQL: one that is not granted."""
    with Postgres() as server:
        server.command("CREATE DATABASE app")
        url = server.url.removesuffix("/postgres") + "/app"
        postgres.install(url)
        asked = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        yield Peer(
            "pg-advisory-lock.md",
            url,
            {},
            lambda: len(server.command(asked)) == 1,
            {"PGPORT": str(server.port), "PGUSER": "postgres"},
        )


@contextmanager
def get_lock() -> Iterator[Peer]:
    """GET_LOCK of MariaDB: the server says what a session waits for."""
    with MariaDB() as server:
        server.command("CREATE DATABASE app")
        url = server.url.replace("/lockfast", "/app")
        mysql.install(url)
        asked = "SELECT 1 FROM information_schema.processlist WHERE state = 'User lock'"
        swaps = {
            "mysql://root:secret@localhost:3306/app": url,
            'host="localhost", port=3306': f'host="{server.host}", port={server.port}',
            'password="secret"': 'password="tests"',
            "'invoices', 10": "'invoices', 60",
        }
        yield Peer("get-lock.md", url, swaps, lambda: len(server.command(asked)) == 1, {})


@contextmanager
def flock(folder: Path) -> Iterator[Peer]:
    """fcntl.flock: the kernel lists those that wait with an arrow."""
    path = folder / "invoices.lock"
    path.touch()
    inode = f":{path.stat().st_ino} "

    def waits() -> bool:
        lines = Path("/proc/locks").read_text("utf-8").splitlines()
        return any("-> FLOCK" in line and inode in line for line in lines)

    with Redis() as server:
        swaps = {"redis://localhost:6379": server.url, "/tmp/invoices.lock": str(path)}  # noqa: S108
        yield Peer("flock.md", server.url, swaps, waits, {})
