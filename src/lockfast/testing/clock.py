"""A clock that a test moves, and the runtimes and the engine that go by it."""

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

GLANCE = 0.005  # seconds between two looks at a clock that may have been moved
PATIENCE = 10.0  # seconds after which a heart that does not come to rest is a failure


class LabEngine(MemoryEngine):
    """The memory engine, whose listener can be watched, and held."""

    until: float | None = None
    """Until when the heart sleeps."""
    rounds = 0
    """How often it has lain down to sleep."""
    asleep = paused = closed = False

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Sleep, and while it is paused sleep on."""
        self.until, self.asleep = deadline, True
        self.rounds += 1
        wakes = await super().listen(deadline)
        while self.paused and not self.closed:
            await self._bell.wait(self._memory.clock() + GLANCE)
        self.asleep = False
        return wakes

    async def close(self) -> None:
        """Let the heart go."""
        self.closed = True
        await super().close()

    def pause(self, *, on: bool) -> None:
        """Hold the heart, or let it go on."""
        self.paused = on
        self.rouse()

    def due(self) -> float:
        """Tell when the heart has something to do."""
        return float("inf") if self.until is None else self.until

    def resting(self, now: float, rounds: int) -> bool:
        """Return whether the heart has nothing to do after so many rounds, or is held."""
        held = self.paused or self.closed
        slept = self.asleep and self.rounds >= rounds
        return held or (slept and not self._pushes and self.due() > now)


class Time:
    """The time of a laboratory: it runs, and can be moved."""

    def __init__(self, nap: Callable[[float], Coroutine[Any, Any, None]]) -> None:
        """Begin at the present; `nap` really waits."""
        self._ahead = 0.0
        self._nap = nap
        self.engines: list[LabEngine] = []

    def now(self) -> float:
        """Read it."""
        return real() + self._ahead

    async def _advance(self, seconds: float) -> None:
        """Let so much time pass: every heart that is not paused beats whenever it is due."""
        if seconds < 0:
            raise ValueError("time goes forward here")
        await self.settle()  # so that every heart has said when it is due
        end = self.now() + seconds
        while (left := end - self.now()) > 0:
            beating = (each for each in self.engines if not each.paused and not each.closed)
            due = min((each.due() for each in beating), default=end)
            self._ahead += min(left, max(due - self.now(), 0.0) + 0.001)
            await self.settle()

    async def settle(self) -> None:
        """Wait until every heart has done what is due."""
        end = real() + PATIENCE
        # It may be in the middle of a beat: only the one after that has seen everything.
        rounds = [(engine, engine.rounds + 2) for engine in self.engines]
        while not all(engine.resting(self.now(), enough) for engine, enough in rounds):
            if real() > end:
                raise AssertionError("a heart does not rest: is one of its callbacks stuck?")
            for engine, _ in rounds:
                engine.rouse()
            await self._nap(0.0002)


class Clock(Time):
    """For threads."""

    def __init__(self) -> None:
        """Begin at the present."""
        super().__init__(Threads().sleep)

    advance = blocking(Time._advance)


class AsyncClock(Time):
    """For tasks: `await clock.advance(60)`."""

    def __init__(self) -> None:
        """Begin at the present."""
        super().__init__(Aio().sleep)

    advance = Time._advance


class LabThreadEvent(ThreadEvent):
    """Looks at the clock again and again, since it may have been moved."""

    __slots__ = ()

    async def wait(self, until: float | None) -> bool:
        """Block this thread."""
        if until is None:
            return await super().wait(None)
        while not self._gate.acquire(timeout=min(max(until - self._now(), 0.0), GLANCE)):
            if self._now() >= until:
                return False
        return True


class LabThreads(Threads):
    """Threads that go by the clock of a laboratory."""

    def event(self) -> LabThreadEvent:
        """Make an event."""
        return LabThreadEvent(self.now)

    async def sleep(self, seconds: float) -> None:
        """Block this thread."""
        end = self.now() + seconds
        while (left := end - self.now()) > 0:
            time.sleep(min(left, GLANCE))  # noqa: ASYNC251  # driven, so it must block


class LabTaskEvent:
    """The same for tasks."""

    def __init__(self, clock: Now) -> None:
        """Begin unset."""
        self._now = clock
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake the waiter."""
        self._event.set()

    async def wait(self, until: float | None) -> bool:
        """Suspend this task."""
        while not self._event.is_set() and (until is None or self._now() < until):
            left = GLANCE if until is None else min(until - self._now(), GLANCE)
            try:
                async with asyncio.timeout(left):
                    await self._event.wait()
            except TimeoutError:
                continue
        return self._event.is_set()


class LabTasks(Aio):
    """Tasks that go by the clock of a laboratory."""

    def event(self) -> LabTaskEvent:  # type: ignore[override]  # an Event all the same
        """Make an event."""
        return LabTaskEvent(self.now)

    async def sleep(self, seconds: float) -> None:
        """Suspend this task."""
        end = self.now() + seconds
        await asyncio.sleep(0)
        while (left := end - self.now()) > 0:  # noqa: ASYNC110  # the clock sets no event
            await asyncio.sleep(min(left, GLANCE))
