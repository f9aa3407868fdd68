"""How a client reaches its database: the interface of the blocking and the asyncio transport."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from lockfast.engines.sqlite.listener import Listener
from lockfast.engines.sqlite.store import Store
from lockfast.port import Wake
from lockfast.runtime.base import Clock

T = TypeVar("T")


class Transport(ABC):
    """Runs the jobs of one client. Subclasses say in which thread."""

    def __init__(self, store: Store, listener: Listener, now: Clock) -> None:
        """Open nothing yet."""
        self.store = store
        self.listener = listener
        self._now = now

    @abstractmethod
    async def run(self, job: Callable[[], T], deadline: float, *, urgent: bool = False) -> T:
        """Run a job, which uses the store and keeps the deadline there, and return its result.

        `urgent`: it need not wait for jobs that came earlier.
        """

    @abstractmethod
    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait for pushes, a `rouse` or the deadline, and return the pushes."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""

    def reset(self) -> None:
        """Drop the connection in a forked child."""
        self.store.reset()
        self.listener.bell.close()
