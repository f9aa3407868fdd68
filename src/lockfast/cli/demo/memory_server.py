"""The memory engine, served to other processes: for a demo where there is no server.

The queues and their clock are in the demo's own process. The workers reach them through a socket,
call by call, and have hearts and leases of their own, as with any engine.
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

from lockfast.blocking.client import Client
from lockfast.claims.session import Session
from lockfast.engines.memory import Memory, MemoryEngine
from lockfast.errors import EngineUnavailable
from lockfast.guarantees import Guarantees
from lockfast.port import EVERYONE, Ask, Page, Standing, Wake
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads

SCHEME = "served://"
GLANCE = 0.1  # seconds between two looks of a waiter: nothing is pushed through the socket


class Server:
    """One memory, and a thread for each process that uses it. They end with this process."""

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
            except OSError:  # closed
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

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()


class Distant:
    """The port, through the socket."""

    def __init__(self, url: str, runtime: Threads) -> None:
        """Connect."""
        key, _, path = url.removeprefix(SCHEME).partition("@")
        self._connection = connection.Client(path, "AF_UNIX", authkey=bytes.fromhex(key))
        self._turn = threading.Lock()
        self._bell = runtime.bell()

    def _call(self, method: str, *args: object, **options: object) -> Any:  # noqa: ANN401  # as the method gives
        try:
            with self._turn:
                self._connection.send((method, args, options))
                return self._connection.recv()
        except (EOFError, OSError) as error:
            raise EngineUnavailable("the demo has ended", sent=True) from error

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Append and report."""
        found: Standing | None = self._call("claim", _bare(ask), deadline)
        return found

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Append several."""
        return [await self.claim(ask, deadline) for ask in asks]

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend."""
        found: list[Standing | Exception | None] = self._call(
            "renew", [_bare(ask) for ask in asks], deadline
        )
        return found

    async def resign(self, asks: Sequence[Ask], deadline: float, *, doubt: bool) -> list[bool]:
        """Remove."""
        found: list[bool] = self._call(
            "resign", [_bare(ask) for ask in asks], deadline, doubt=doubt
        )
        return found

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Leave it to the heart."""

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Sleep, but not for long: whoever waits looks again."""
        soon = now() + GLANCE
        await self._bell.wait(soon if deadline is None else min(soon, deadline))
        return [EVERYONE] if now() >= soon else []

    def rouse(self) -> None:
        """Wake the listener."""
        self._bell.ring()

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Show."""
        page: Page = self._call("inspect", names, cursor, exact=exact)
        return page

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        """Keep."""
        self._call("record", name, claim, record, deadline)

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Read."""
        found: list[bytes] = self._call("records", name, deadline)
        return found

    async def guarantees(self, deadline: float) -> Guarantees:
        """Promise what memory promises."""
        found: Guarantees = self._call("guarantees", deadline)
        return found

    def reset(self) -> None:
        """Nothing: these processes do not fork."""

    async def close(self) -> None:
        """Hang up."""
        self._bell.close()
        with self._turn:
            self._connection.close()


def _bare(ask: Ask) -> Ask:
    """Take from a claim what can travel."""
    return Ask(ask.id, ask.shape, ask.queue, ask.not_after, ask.payload)


def connect(url: str) -> Client:
    """Make a client of a served memory."""
    runtime = Threads()
    return Client(Session(lambda: Distant(url, runtime), runtime))
