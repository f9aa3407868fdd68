"""A bench: the engine under test, as whoever wrote it describes it. About fifteen lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from lockfast import aio
from lockfast.blocking import client
from lockfast.claims.session import Session
from lockfast.engines import opener
from lockfast.port import Engine
from lockfast.runtime import base
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.testing.harness.mode import Mode, Threaded
from lockfast.url import parse


class Bench(ABC):
    """An engine to be held to the contract. Engines that are opened on one bench must meet.

    The contract counts in units. Where the engine's clock can be moved, leave the unit at one
    second: no test waits. Where a test must really wait, a quarter of a second is a good unit.
    """

    unit = 1.0
    ahead = 0.0
    """How far the clock of `now` was moved, in seconds."""

    least = 1.0
    """The part of its life that a new claim has at the least: a session may have less left."""
    lag = 0.0
    """How long after its time the claim of a client that is no more may stand, in seconds."""

    @abstractmethod
    def open(self, runtime: Threads | Aio) -> Engine:
        """Open an engine in the mode of the runtime; its deadlines are of `runtime.now`."""

    @abstractmethod
    def wipe(self) -> None:
        """Remove every claim and every tombstone."""

    def move(self, seconds: float) -> bool:
        """Move the engine's clock forward. False: it cannot be moved, so the test waits."""
        del seconds
        return False

    def rewind(self, seconds: float) -> None:
        """Move the engine's clock back. Only `ClockContract` and the machine ask for it."""
        raise NotImplementedError(f"{type(self).__name__} cannot move its clock by -{seconds} s")

    def now(self) -> float:
        """Read the clock of the process: it goes on as far as the engine's is moved."""
        return base.now() + self.ahead

    def client(self, mode: Mode) -> client.Client | aio.AsyncClient:
        """Make a client in real time."""
        return made(mode, self.open)


def made(
    mode: Mode, open_engine: Callable[[Threads | Aio], Engine]
) -> client.Client | aio.AsyncClient:
    """Make a client of an engine that no URL names."""
    if isinstance(mode, Threaded):
        threads = Threads()
        return client.Client(Session(lambda: open_engine(threads), threads))
    tasks = Aio()
    return aio.AsyncClient(Session(lambda: open_engine(tasks), tasks))


class UrlBench(Bench):
    """An engine that lockfast knows by its URL."""

    def __init__(self, url: str) -> None:
        """Every engine and every client is opened from this URL."""
        self.url = url

    def open(self, runtime: Threads | Aio) -> Engine:
        """Open it as `connect` does."""
        return opener(parse(self.url), runtime)()

    def client(self, mode: Mode) -> client.Client | aio.AsyncClient:
        """Connect, as a user does."""
        return client.connect(self.url) if isinstance(mode, Threaded) else aio.connect(self.url)
