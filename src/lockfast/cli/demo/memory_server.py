"""Serves the memory engine to other processes, for a demo on a machine without Redis.

The queues and their clock are in the demo's own process. The workers send each call of the port
through a socket. They have hearts and leases of their own, as with any engine.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from lockfast.aio.client import AsyncClient
from lockfast.blocking.client import Client
from lockfast.claims.session import DEADLOCK, Session
from lockfast.engines.memory import Memory, MemoryEngine
from lockfast.errors import EngineUnavailable
from lockfast.guarantees import Guarantees
from lockfast.port import EVERYONE, Ask, Page, Standing, Wake
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads

SCHEME = "served://"
GLANCE = 0.1  # seconds after which waiters look again, since the socket carries no pushes


class Server:
    """Serves one memory engine, with a daemon thread for each process that connects."""

    def __init__(self, folder: Path) -> None:
        """Listen at a socket in the folder."""
        self._memory = Memory()
        key = secrets.token_bytes(16)
        path = folder / "engine"
        self._listener = Listener(str(path), "AF_UNIX", authkey=key)
        self.url = f"{SCHEME}{key.hex()}@{path}"
        threading.Thread(target=self._accept, name="demo-engine", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                caller = self._listener.accept()
            except OSError:  # the listener was closed
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: Connection) -> None:
        runtime = Threads()
        engine = MemoryEngine(self._memory, runtime.bell())
        with caller, suppress(EOFError, OSError):
            while True:
                method, args, options = caller.recv()
                caller.send(drive(getattr(engine, method)(*args, **options)))
        drive(engine.close())

    def client(self) -> AsyncClient:
        """Return a client for the asyncio tasks of the demo's own process."""
        runtime = Aio()
        return AsyncClient(Session(lambda: MemoryEngine(self._memory, runtime.bell()), runtime))

    def close(self) -> None:
        """Stop accepting connections."""
        self._listener.close()


class Distant:
    """The engine that a worker uses: sends each call through the socket to the demo's `Server`."""

    def __init__(self, url: str, runtime: Threads) -> None:
        """Connect to the socket that the URL names."""
        key, _, path = url.removeprefix(SCHEME).partition("@")
        self._connection = connection.Client(path, "AF_UNIX", authkey=bytes.fromhex(key))
        self._turn = threading.Lock()
        self._bell = runtime.bell()

    def _call(self, method: str, *args: object, **options: object) -> Any:  # noqa: ANN401  # what the method returns
        try:
            with self._turn:
                self._connection.send((method, args, options))
                return self._connection.recv()
        except (EOFError, OSError) as error:
            raise EngineUnavailable("the demo has ended", sent=True) from error

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Append the claim to its queue and return its standing."""
        found: Standing | None = self._call("claim", _bare(ask), deadline)
        return found

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Append several claims, one by one."""
        return [await self.claim(ask, deadline) for ask in asks]

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend the claims and return their standings."""
        found: list[Standing | Exception | None] = self._call(
            "renew", [_bare(ask) for ask in asks], deadline
        )
        return found

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        """Remove the claims for good."""
        found: list[bool | Exception] = self._call(
            "resign", [_bare(ask) for ask in asks], deadline, doubt=doubt
        )
        return found

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Do nothing: the heart resigns the same claims afterwards."""

    def hear(self, client: str, *, on: bool) -> None:
        """Do nothing: `listen` looks at all claims at intervals."""

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Sleep for `GLANCE` at most, then return `EVERYONE`, so that all waiters look again."""
        soon = now() + GLANCE
        await self._bell.wait(soon if deadline is None else min(soon, deadline))
        return [EVERYONE] if now() >= soon else []

    def rouse(self) -> None:
        """Make `listen` return now."""
        self._bell.ring()

    def time(self, name: str) -> float:  # noqa: ARG002  # one clock for all names
        """Return the time of this machine's clock, which is also that of the demo's memory."""
        return now()

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Read claims without changing anything."""
        page: Page = self._call("inspect", names, cursor, exact=exact)
        return page

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        """Store the record of a break."""
        self._call("record", name, claim, record, deadline)

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Return the records of the breaks of a name, the newest first."""
        found: list[bytes] = self._call("records", name, deadline)
        return found

    async def guarantees(self, deadline: float) -> Guarantees:
        """Return the guarantees of the memory engine."""
        found: Guarantees = self._call("guarantees", deadline)
        return found

    def reset(self) -> None:
        """Do nothing: the processes of the demo do not fork."""

    async def close(self) -> None:
        """Close the connection to the demo."""
        self._bell.close()
        with self._turn:
            self._connection.close()


def _bare(ask: Ask) -> Ask:
    """Return a copy of a claim with only the parts that are sent."""
    return Ask(ask.id, ask.shape, ask.queue, ask.not_after, ask.payload)


def connect(url: str, deadlock_after: float = DEADLOCK) -> Client:
    """Return a client for a memory engine that a `Server` serves at this URL."""
    runtime = Threads()
    return Client(Session(lambda: Distant(url, runtime), runtime, deadlock_after=deadlock_after))
