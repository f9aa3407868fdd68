"""A bench: describes the engine under test to the contract suite, in about fifteen lines."""

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
    """Describes an engine to the contract suite. Subclass it for your engine.

    All engines that one bench opens must share the same queues. The suite measures time in units.
    If a test can move the engine's clock, leave the unit at one second, because no test waits. If
    tests must really wait, a quarter of a second is a good unit.
    """

    unit = 1.0
    ahead = 0.0
    """How far tests have moved the clock of `now`, in seconds."""

    least = 1.0
    """The smallest part of its ttl that a new claim may start with.

    It is below 1 if claims share a session on the server, which may have less time left.
    """
    lag = 0.0
    """How many seconds after its expiry the engine may still show the claim of a dead client."""

    @abstractmethod
    def open(self, runtime: Threads | Aio) -> Engine:
        """Return a new engine.

        Args:
            runtime: `Threads` or `Aio`. The engine's deadlines are instants of `runtime.now`.

        Returns:
            An engine that has not connected yet.
        """

    @abstractmethod
    def wipe(self) -> None:
        """Remove every claim and every tombstone."""

    def move(self, seconds: float) -> bool:
        """Move the engine's clock forward.

        Args:
            seconds: How far.

        Returns:
            False if that is impossible. Then the test waits.
        """
        del seconds
        return False

    def rewind(self, seconds: float) -> None:
        """Move the engine's clock back.

        Only `StepBackContract`, `ClockContract` and `QueueMachine` call this.

        Args:
            seconds: How far.

        Raises:
            NotImplementedError: The bench does not override this.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot move its clock by -{seconds} s")

    def now(self) -> float:
        """Return the time of this process, which moves forward together with the engine's clock.

        Returns:
            An instant of the local clock, in seconds.
        """
        return base.now() + self.ahead

    def client(self, mode: Mode) -> client.Client | aio.AsyncClient:
        """Return a client that runs in real time.

        Args:
            mode: Threads or asyncio.

        Returns:
            A client of the engine that `open` returns.
        """
        return made(mode, self.open)


def made(
    mode: Mode, open_engine: Callable[[Threads | Aio], Engine]
) -> client.Client | aio.AsyncClient:
    """Return a client of an engine that has no URL."""
    if isinstance(mode, Threaded):
        threads = Threads()
        return client.Client(Session(lambda: open_engine(threads), threads))
    tasks = Aio()
    return aio.AsyncClient(Session(lambda: open_engine(tasks), tasks))


class UrlBench(Bench):
    """A bench for an engine that `lockfast.connect` finds by its URL."""

    def __init__(self, url: str) -> None:
        """Open every engine and every client from this URL."""
        self.url = url

    def open(self, runtime: Threads | Aio) -> Engine:
        """Return a new engine, opened as `connect` does."""
        return opener(parse(self.url), runtime)()

    def client(self, mode: Mode) -> client.Client | aio.AsyncClient:
        """Return a client, made as a user makes one."""
        return client.connect(self.url) if isinstance(mode, Threaded) else aio.connect(self.url)
