"""The benches: each engine and each way to run it, as the contract wants it described."""

from __future__ import annotations

import secrets
from pathlib import Path

from lockfast.engines.memory import Memory, MemoryEngine
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.testing import Bench, Stage, UrlBench
from tests.servers import (
    EtcdCluster,
    MariaDB,
    Postgres,
    Redis,
    RedlockSet,
    ServerClock,
    ZooKeeper,
    ZooKeeperEnsemble,
)

WIPE = """
for _, key in ipairs(redis.call('KEYS', 'lockfast:redlock:{*}[=>#?]*')) do
  redis.call('DEL', key)
end
"""


class MemoryBench(Bench):
    """The reference model, on a clock that the test moves."""

    def __init__(self) -> None:
        self.wipe()

    def open(self, runtime: Threads | Aio) -> Engine:
        return MemoryEngine(self._memory, runtime.bell())

    def wipe(self) -> None:
        self._memory = Memory(self.now)

    def move(self, seconds: float) -> bool:
        del seconds  # its clock is this process's, which the stage moves
        return True

    def rewind(self, seconds: float) -> None:
        self.ahead -= seconds


class MemoryUrlBench(UrlBench):
    """The same by its URL and in real time, as a user has it."""

    def __init__(self) -> None:
        super().__init__("memory://")
        self.wipe()

    def wipe(self) -> None:
        self.url = f"memory://{secrets.token_hex(8)}"


class SqliteBench(UrlBench):
    """A file per test in real time, as a user has it."""

    def __init__(self, folder: Path) -> None:
        super().__init__("")
        self._folder = folder
        self.wipe()

    def wipe(self) -> None:
        self.url = f"sqlite:///{self._folder}/{secrets.token_hex(8)}.db"


class SqliteMovedBench(SqliteBench):
    """The same, by a clock that the test moves: claims expire by the clock of this process."""

    def move(self, seconds: float) -> bool:
        del seconds  # the clock that counts is this process's, which the stage moves
        return True

    def rewind(self, seconds: float) -> None:
        self.ahead -= seconds


class RedisBench(UrlBench):
    """Servers that are wiped with FLUSHALL; their clock is moved if there is one to move."""

    def __init__(self, url: str, *servers: Redis, clock: ServerClock | None = None) -> None:
        super().__init__(url)
        self.servers = servers
        self._clock = clock
        self.unit = 0.25 if clock is None else 1.0

    def wipe(self) -> None:
        for server in self.servers:
            server.command("FLUSHALL")

    def move(self, seconds: float) -> bool:
        if self._clock is None:
            return False
        self._clock.advance(seconds)
        return True

    def rewind(self, seconds: float) -> None:
        assert self._clock is not None, "this server's clock cannot be moved"
        self._clock.advance(-seconds)


def server_of(stage: Stage) -> Redis:
    """Return the Redis server of a stage that has one."""
    assert isinstance(stage.bench, RedisBench)
    return stage.bench.servers[0]


class RedlockBench(RedisBench):
    """Nodes that are wiped of everything but what makes them members."""

    def __init__(self, servers: RedlockSet, clock: ServerClock | None = None) -> None:
        super().__init__(servers.url, *servers.nodes, clock=clock)

    def wipe(self) -> None:
        for server in self.servers:
            server.command("EVAL", WIPE, 0)


class PostgresBench(UrlBench):
    """A server that is wiped by deleting every row that a claim leaves."""

    def __init__(
        self, server: Postgres, *, url: str | None = None, clock: ServerClock | None = None
    ) -> None:
        super().__init__(url or server.url)
        self.server = server
        self._clock = clock
        self.unit = 0.25 if clock is None else 1.0

    def wipe(self) -> None:
        self.server.command(
            "DELETE FROM lockfast.claim; DELETE FROM lockfast.tombstone; "
            "DELETE FROM lockfast.broken; "
            # Counters too: a clock that was moved would leave some names ahead of the others.
            "UPDATE lockfast.bucket SET seen = 0, last = 0 WHERE seen <> 0 OR last <> 0"
        )

    def move(self, seconds: float) -> bool:
        if self._clock is None:
            return False
        self._clock.advance(seconds)
        return True

    def rewind(self, seconds: float) -> None:
        assert self._clock is not None, "this server's clock cannot be moved"
        self._clock.advance(-seconds)


class MysqlBench(UrlBench):
    """A server that is wiped by deleting every row that a claim leaves."""

    def __init__(self, server: MariaDB, *, clock: ServerClock | None = None) -> None:
        super().__init__(server.url)
        self.server = server
        self._clock = clock
        self.unit = 0.25 if clock is None else 1.0

    def wipe(self) -> None:
        with self.server.connect(database="lockfast") as connection, connection.cursor() as cursor:
            for table in ("claim", "tombstone", "broken"):
                cursor.execute(f"DELETE FROM lockfast_{table}")  # noqa: S608  # of the list above
            # Counters too: a clock that was moved would leave some names ahead of the others.
            cursor.execute(
                "UPDATE lockfast_bucket SET seen = 0, last = 0 WHERE seen <> 0 OR last <> 0"
            )

    def move(self, seconds: float) -> bool:
        if self._clock is None:
            return False
        self._clock.advance(seconds)
        return True

    def rewind(self, seconds: float) -> None:
        assert self._clock is not None, "this server's clock cannot be moved"
        self._clock.advance(-seconds)


class ZooKeeperBench(UrlBench):
    """An ensemble in real time; each test works below a node of its own."""

    unit = 0.3

    def __init__(self, servers: ZooKeeper | ZooKeeperEnsemble) -> None:
        super().__init__(servers.url)
        self._servers = servers
        self.wipe()

    def wipe(self) -> None:
        self.url = f"{self._servers.url}/tests/{secrets.token_hex(8)}"


class ZooKeeperMovedBench(ZooKeeperBench):
    """The same, by a clock that the test moves: a claim's time is counted by its own process."""

    unit = 1.0

    def move(self, seconds: float) -> bool:
        del seconds  # the clock that counts is this process's, which the stage moves
        return True


class EtcdBench(UrlBench):
    """A cluster whose clock nobody can move: its leases are of whole seconds, and end late."""

    unit = 0.5
    least = 2 / 3
    lag = 1.6  # half a second of rounding, half a second between etcd's looks, and some

    def __init__(self, cluster: EtcdCluster) -> None:
        super().__init__(cluster.url)
        self.cluster = cluster

    def wipe(self) -> None:
        self.cluster.wipe()
