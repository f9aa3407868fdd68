"""The benches: each engine and each way to run it, as the contract wants it described."""

from __future__ import annotations

import secrets

from lockfast.engines.memory import Memory, MemoryEngine
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.testing import Bench, UrlBench
from tests.servers import Postgres, Redis, ServerClock


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
            "UPDATE lockfast.bucket SET seen = 0 WHERE seen <> 0"
        )

    def move(self, seconds: float) -> bool:
        if self._clock is None:
            return False
        self._clock.advance(seconds)
        return True

    def rewind(self, seconds: float) -> None:
        assert self._clock is not None, "this server's clock cannot be moved"
        self._clock.advance(-seconds)
