"""A clock that a test moves, and the runtimes and the memory engine that use it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from lockfast.engines.memory import MemoryEngine
from lockfast.port import Wake
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import Clock as Now
from lockfast.runtime.base import now as real
from lockfast.runtime.drive import blocking
from lockfast.runtime.threads import ThreadEvent, Threads

GLANCE = 0.005  # seconds after which a sleeper reads the clock again: a test may have moved it
PATIENCE = 10.0  # seconds after which a heart that is still busy fails the test


class LabEngine(MemoryEngine):
    """A memory engine that shows whether its client's heart sleeps, and can keep it asleep."""

    until: float | None = None
    """Until when the heart sleeps; None if only a push or a `rouse` ends its sleep."""
    rounds = 0
    """How often the heart has gone to sleep."""
    asleep = paused = closed = False

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Sleep until a push, a `rouse` or the deadline, and for as long as the heart is paused."""
        self.until, self.asleep = deadline, True
        self.rounds += 1
        wakes = await super().listen(deadline)
        while self.paused and not self.closed:
            await self._bell.wait(self._memory.clock() + GLANCE)
        self.asleep = False
        return wakes

    async def close(self) -> None:
        """Close the engine, and let a paused heart return from `listen`."""
        self.closed = True
        await super().close()

    def pause(self, *, on: bool) -> None:
        """Keep the heart asleep, or let it continue."""
        self.paused = on
        self.rouse()

    def due(self) -> float:
        """Return when the heart has something to do next."""
        return float("inf") if self.until is None else self.until

    def resting(self, now: float, rounds: int) -> bool:
        """Return whether the heart has nothing to do after so many rounds, or is paused."""
        held = self.paused or self.closed
        slept = self.asleep and self.rounds >= rounds
        return held or (slept and not self._pushes and self.due() > now)


class Time:
    """The clock of a lab: it runs in real time, and `advance` moves it forward."""

    def __init__(self, nap: Callable[[float], Coroutine[Any, Any, None]]) -> None:
        """Start at the present. `nap` sleeps in real time."""
        self._ahead = 0.0
        self._nap = nap
        self.engines: list[LabEngine] = []

    def now(self) -> float:
        """Return the time of the lab.

        Returns:
            Seconds since some instant in the past.
        """
        return real() + self._ahead

    async def _advance(self, seconds: float) -> None:
        """Move the clock forward. Each client that is not paused renews its leases on the way.

        Args:
            seconds: How far.

        Raises:
            ValueError: It is negative.
            AssertionError: A client is busy for more than 10 seconds, perhaps in a callback.
        """
        if seconds < 0:
            raise ValueError("the clock of a lab can only move forward")
        await self.settle()  # then `due` is known for every heart
        end = self.now() + seconds
        while (left := end - self.now()) > 0:
            beating = (each for each in self.engines if not each.paused and not each.closed)
            due = min((each.due() for each in beating), default=end)
            self._ahead += min(left, max(due - self.now(), 0.0) + 0.001)
            await self.settle()

    async def settle(self) -> None:
        """Wait, in real time, until every client has done what is due.

        Raises:
            AssertionError: A client is busy for more than 10 seconds, perhaps in a callback.
        """
        end = real() + PATIENCE
        # A heart may be in the middle of a beat. Only its next beat sees all that has happened.
        rounds = [(engine, engine.rounds + 2) for engine in self.engines]
        while not all(engine.resting(self.now(), enough) for engine, enough in rounds):
            if real() > end:
                raise AssertionError(
                    "a client does not come to rest: is one of its callbacks stuck?"
                )
            for engine, _ in rounds:
                engine.rouse()
            await self._nap(0.0002)


class Clock(Time):
    """The clock of a `Lab`."""

    def __init__(self) -> None:
        """Start at the present."""
        super().__init__(Threads().sleep)

    advance = blocking(Time._advance)


class AsyncClock(Time):
    """The clock of an `AsyncLab`: `await clock.advance(60)`."""

    def __init__(self) -> None:
        """Start at the present."""
        super().__init__(Aio().sleep)

    advance = Time._advance


class LabThreadEvent(ThreadEvent):
    """An event that reads the clock again and again while it waits, since a test may move it."""

    __slots__ = ()

    async def wait(self, until: float | None) -> bool:
        """Block this thread until the event is set; return False if `until` comes first."""
        if until is None:
            return await super().wait(None)
        while not self._gate.acquire(timeout=min(max(until - self._now(), 0.0), GLANCE)):
            if self._now() >= until:
                return False
        return True


class LabThreads(Threads):
    """The blocking runtime, on the clock of a lab."""

    def event(self) -> LabThreadEvent:
        """Return a new event."""
        return LabThreadEvent(self.now)

    async def sleep(self, seconds: float) -> None:
        """Block this thread until so much time has passed on the lab's clock."""
        end = self.now() + seconds
        while (left := end - self.now()) > 0:
            time.sleep(min(left, GLANCE))  # noqa: ASYNC251  # no event loop runs this: it must block


class LabTaskEvent:
    """The asyncio form of `LabThreadEvent`."""

    def __init__(self, clock: Now) -> None:
        """Start unset."""
        self._now = clock
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake the waiter."""
        self._event.set()

    async def wait(self, until: float | None) -> bool:
        """Suspend this task until the event is set; return False if `until` comes first."""
        while not self._event.is_set() and (until is None or self._now() < until):
            left = GLANCE if until is None else min(until - self._now(), GLANCE)
            try:
                async with asyncio.timeout(left):
                    await self._event.wait()
            except TimeoutError:
                continue
        return self._event.is_set()


class LabTasks(Aio):
    """The asyncio runtime, on the clock of a lab."""

    def event(self) -> LabTaskEvent:  # type: ignore[override]  # it has the methods of an Event
        """Return a new event."""
        return LabTaskEvent(self.now)

    async def sleep(self, seconds: float) -> None:
        """Suspend this task until so much time has passed on the lab's clock."""
        end = self.now() + seconds
        await asyncio.sleep(0)
        while (left := end - self.now()) > 0:  # noqa: ASYNC110  # the clock sets no event
            await asyncio.sleep(min(left, GLANCE))
