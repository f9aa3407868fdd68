"""The interface of a runtime to shared code: clock, sleep, events, semaphores, bells, hearts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Clock = Callable[[], float]

# The local clock. It goes on while the machine sleeps, and never goes back. It is a partial and no
# Python function, because every acquisition reads it ten times.
if sys.platform == "linux":
    now: Clock = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
elif sys.platform == "darwin":  # CLOCK_MONOTONIC counts sleep here, time.monotonic() does not
    now = partial(time.clock_gettime, time.CLOCK_MONOTONIC)
else:
    now = time.monotonic


class Event(Protocol):
    """A one-shot event with one waiter."""

    def set(self) -> None:
        """Wake the waiter, now or when it begins to wait. Any thread may call this, repeatedly."""

    async def wait(self, until: float | None) -> bool:
        """Wait for `set`, and return True, or False if `until` comes first. Call this only once."""
        ...


class Bell(Protocol):
    """Wakes a sleeping listener, which can watch a socket at the same time."""

    def ring(self) -> None:
        """End the present sleep, or the next one. Never raises.

        Any thread or forked child may call this at any time.
        """

    async def wait(self, until: float | None, watched: int | None = None) -> bool:
        """Sleep until a ring, until the time `until`, or until there is something to read from the
        descriptor `watched`. Return whether there is something to read.
        """
        ...

    def close(self) -> None:
        """Close the bell. Nobody may sleep on it afterwards."""


class Crowded(Exception):  # never leaves an engine
    """No turn was free before the deadline."""


class Turns(Protocol):
    """A counting semaphore whose acquire has a deadline.

    It has one method and no `enter` and `leave`, because Ctrl-C between the end of `enter` and the
    caller's `try` would lose a turn for ever.
    """

    async def hold(self, work: Callable[[], Coroutine[Any, Any, T]], deadline: float) -> T:
        """Run `work` as soon as a turn is free. Raise `Crowded` if the deadline comes first."""
        ...


class Running(Protocol):
    """The thread or task that runs a heart."""

    def start(self) -> None:
        """Start the thread or task."""

    def started(self) -> bool:
        """Return whether it runs, or ran. Callers ask because Ctrl-C may interrupt `start`."""
        ...

    def here(self) -> bool:
        """Return whether the caller runs in it, as a callback of the heart does."""
        ...

    async def ended(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for its end. False if it still runs."""
        ...

    async def join(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for its end, then cancel it if the runtime can.

        False if it still runs, and if it is the caller, which cannot wait for itself.
        """
        ...


class Runtime(Protocol):
    """The runtime that shared code runs on: threads or asyncio."""

    now: Clock

    def event(self) -> Event:
        """Make a one-shot event."""
        ...

    def turns(self, size: int) -> Turns:
        """Make a semaphore that admits `size` callers at once."""
        ...

    def mutex(self) -> Turns:
        """Make a semaphore for one caller at a time. A thread that is inside may enter again,
        because a signal handler runs in the middle of the code that it interrupts.
        """
        ...

    def bell(self) -> Bell:
        """Make a bell."""
        ...

    def worker(self) -> tuple[object, str]:
        """Return the identity of the running thread or task, and its name for people to read."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""

    def heart(self, main: Callable[[], Coroutine[object, object, None]]) -> Running:
        """Make a thread or task that runs `main` beside the callers. It is not started yet."""
        ...

    def beside(self, main: Callable[[], Coroutine[object, object, None]]) -> Running | None:
        """Make a thread that runs `main`, also while callers block the event loop. It is not
        started yet. None if there is no event loop, or if the clock is not the real one.
        """
        ...

    def post(self, callback: Callable[[], object]) -> bool:
        """Have the event loop call `callback` soon. False if no loop runs. From any thread."""
        ...

    async def apart(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` to its end, even if the caller is cancelled. A thread runs it here and now. A
        task only starts it, because cancelling the caller would cancel what it waits for.
        """

    def ends(self, error: BaseException) -> bool:
        """Return whether an error that a callback raised is meant to end the running task."""
        ...

    def forget(self) -> None:
        """Forget what belongs to the parent, in a forked child."""

    def enter(self) -> None:
        """Raise `WrongLoop` if this runtime belongs to another event loop."""
