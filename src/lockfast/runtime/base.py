"""What shared code may ask of its runtime: the time, a sleep, a one-shot event, a heart to run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Clock = Callable[[], float]

# The local clock: it goes on while the machine sleeps, and never back. A partial and no function
# of ours, since it is read ten times in every acquisition.
if sys.platform == "linux":
    now: Clock = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
elif sys.platform == "darwin":  # here CLOCK_MONOTONIC counts sleep, and time.monotonic() does not
    now = partial(time.clock_gettime, time.CLOCK_MONOTONIC)
else:
    now = time.monotonic


class Event(Protocol):
    """A one-shot event with one waiter."""

    def set(self) -> None:
        """Wake the waiter, now or whenever it comes. From any thread, any number of times."""

    async def wait(self, until: float | None) -> bool:
        """Wait; False when `until` came first."""
        ...


class Bell(Protocol):
    """Ends the sleep of a listener, which may watch a socket meanwhile."""

    def ring(self) -> None:
        """End the sleep, or the next one. From any thread or fork, at any time; never raises."""

    async def wait(self, until: float | None, watched: int | None = None) -> bool:
        """Sleep until it rings, the time comes, or there is something to read from the descriptor
        that is watched: True then.
        """
        ...

    def close(self) -> None:
        """Let go of it: nobody sleeps here any more."""


class Crowded(Exception):  # never leaves an engine
    """No turn was free before the deadline."""


class Turns(Protocol):
    """A counting semaphore with a deadline. One method and no `enter` and `leave`: Ctrl-C between
    the end of `enter` and the caller's `try` would lose a turn for ever.
    """

    async def hold(self, work: Callable[[], Coroutine[Any, Any, T]], deadline: float) -> T:
        """Run `work` as soon as a turn is free; raise `Crowded` when the deadline comes first."""
        ...


class Running(Protocol):
    """A heart's thread or task."""

    def start(self) -> None:
        """Start it."""

    def started(self) -> bool:
        """Return whether it runs, or ran: Ctrl-C may have struck while it was started."""
        ...

    def here(self) -> bool:
        """Return whether the caller runs inside it: a callback that it calls."""
        ...

    async def ended(self, timeout: float) -> bool:
        """Wait until it has ended, but no longer than that; False if it has not."""
        ...

    async def join(self, timeout: float) -> bool:
        """Wait in the same way, and then end it if that is possible. Not by itself."""
        ...


class Runtime(Protocol):
    """Threads, or asyncio."""

    now: Clock

    def event(self) -> Event:
        """Make an event."""
        ...

    def turns(self, size: int) -> Turns:
        """Make a semaphore for so many callers at once."""
        ...

    def mutex(self) -> Turns:
        """Make a semaphore for one caller at a time. A thread that is inside may enter again: a
        signal handler runs in the middle of what it interrupts.
        """
        ...

    def bell(self) -> Bell:
        """Make a bell."""
        ...

    def worker(self) -> tuple[object, str]:
        """Identify the running thread or task, and name it for people to read."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def heart(self, main: Callable[[], Coroutine[object, object, None]]) -> Running:
        """Make a thread or task, not started yet, beside the callers."""
        ...

    def ends(self, error: BaseException) -> bool:
        """Return whether an error that a callback let through is meant for the running task."""
        ...

    def forget(self) -> None:
        """Begin anew in a forked child."""

    def enter(self) -> None:
        """Raise if this runtime's objects do not belong here (a second event loop)."""
