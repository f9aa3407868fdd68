"""The asyncio runtime: tasks of one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

from lockfast.errors import WrongLoop
from lockfast.runtime.base import Clock, Crowded, T, now
from lockfast.runtime.threads import HeartThread


class TaskEvent:
    """A one-shot event made of a future."""

    __slots__ = ("_future", "_loop", "_now")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        """Start unset."""
        self._loop = loop
        self._now = clock
        self._future: asyncio.Future[bool] = loop.create_future()

    def set(self) -> None:
        """Wake the waiter. Any thread may call this: a guard can find a lease stale in any."""
        if self._future.done():
            return
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001  # the public one raises
            self._future.set_result(True)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        if not self._future.done():
            self._future.set_result(True)

    async def wait(self, until: float | None) -> bool:
        """Suspend this task until `set`, or until the time `until`, and return whether it was set.

        It uses a timer and no `asyncio.timeout`, because it must not cancel the task.
        """
        if until is None:
            return await self._future
        timer = self._loop.call_later(max(until - self._now(), 0.0), self._late)
        try:
            return await self._future
        finally:
            timer.cancel()

    def _late(self) -> None:
        if not self._future.done():
            self._future.set_result(False)


class TaskTurns:
    """A counting semaphore for tasks."""

    def __init__(self, size: int, clock: Clock) -> None:
        """Start with all turns free."""
        self._now = clock
        self._free = asyncio.Semaphore(size)

    async def hold(self, work: Callable[[], Coroutine[Any, Any, T]], deadline: float) -> T:
        """Suspend this task until a turn is free, then run `work`."""
        if not self._free.locked():  # the common case, without a timer
            await self._free.acquire()
        else:
            try:
                async with asyncio.timeout(max(deadline - self._now(), 0.0)):
                    await self._free.acquire()
            except TimeoutError:
                raise Crowded from None
        try:
            return await work()
        finally:
            self._free.release()


class TaskBell:
    """A bell made of an event of the running loop. Other threads may ring it too."""

    def __init__(self, clock: Clock) -> None:
        """Start silent."""
        self._now = clock
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._readable = False

    def ring(self) -> None:
        """Ring, from this loop or another thread. If the loop is closed, nobody sleeps there."""
        try:
            if asyncio.get_running_loop() is self._loop:
                self._event.set()
                return
        except RuntimeError:  # no loop runs in this thread
            pass
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, until: float | None, watched: int | None = None) -> bool:
        """Suspend this task until a ring, the time `until`, or something to read."""
        self._readable = False
        if not self._event.is_set() and (until is None or until > self._now()):
            timer = None
            if until is not None:
                timer = self._loop.call_later(until - self._now(), self._event.set)
            if watched is not None:
                self._loop.add_reader(watched, self._read, watched)
            try:
                await self._event.wait()
            finally:
                if timer is not None:
                    timer.cancel()
                if watched is not None:
                    self._loop.remove_reader(watched)
        self._event.clear()
        return self._readable

    def _read(self, watched: int) -> None:
        """Wake the task, and stop watching: the descriptor stays readable until somebody reads
        from it, and that reader may close it.
        """
        self._loop.remove_reader(watched)
        self._readable = True
        self._event.set()

    def close(self) -> None:
        """Do nothing: a task's bell has nothing to close."""


class HeartTask:
    """The task of a heart. It has an empty context, because it serves all callers and must not
    keep one caller's context variables (a request, a transaction) alive.
    """

    def __init__(self, main: Callable[[], Coroutine[object, object, None]]) -> None:
        """Prepare a task for `main`. `start` creates it."""
        self._main = main
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Create the task."""
        self._task = asyncio.get_running_loop().create_task(
            self._main(), name="lockfast-heart", context=contextvars.Context()
        )

    def started(self) -> bool:
        """Return whether the task was created, also if it has ended."""
        return self._task is not None

    def here(self) -> bool:
        """Return whether the caller runs in this task."""
        return self._task is asyncio.current_task()

    async def ended(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the task's end; False if it still runs."""
        if self._task is None:
            return True
        await asyncio.wait([self._task], timeout=timeout)
        return self._task.done()

    async def join(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds, then cancel the task. False if it is the caller itself."""
        if self._task is None or self._task is asyncio.current_task():
            return self._task is None
        await asyncio.wait([self._task], timeout=timeout)
        self._task.cancel()
        return True


class Aio:
    """The runtime of asyncio callers. It belongs to the event loop of its first use."""

    def __init__(self, clock: Clock = now) -> None:
        """Read the time from `clock`."""
        self.now = clock
        self._loop: asyncio.AbstractEventLoop | None = None

    def enter(self) -> None:
        """Bind to the running loop. Raise in a second loop: the sockets belong to the first one."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise WrongLoop(
                "this lockfast client belongs to another event loop. Make one client per loop: "
                "`async with lockfast.aio.connect(url) as client:` inside the coroutine that "
                "asyncio.run() runs."
            )

    def forget(self) -> None:
        """Forget the parent's loop, in a forked child."""
        self._loop = None

    def event(self) -> TaskEvent:
        """Make a one-shot event."""
        return TaskEvent(asyncio.get_running_loop(), self.now)

    def turns(self, size: int) -> TaskTurns:
        """Make a semaphore for tasks of the running loop."""
        return TaskTurns(size, self.now)

    def mutex(self) -> TaskTurns:
        """Make a mutex. It is not re-entrant: no signal handler or finalizer awaits it in the
        middle of a task.
        """
        return TaskTurns(1, self.now)

    def bell(self) -> TaskBell:
        """Make a bell."""
        return TaskBell(self.now)

    def worker(self) -> tuple[object, str]:
        """Return a weak reference to the running task, and its name. A strong reference would keep
        a finished task alive, and with it a leaked lease that is its result: no one would notice.
        """
        task = asyncio.current_task()
        return (weakref.ref(task), task.get_name()) if task is not None else (None, "callback")

    async def sleep(self, seconds: float) -> None:
        """Suspend this task for `seconds`."""
        await asyncio.sleep(seconds)

    async def apart(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task for `work`, without a context: it serves several callers."""
        keep(asyncio.get_running_loop().create_task(work, context=contextvars.Context()))

    def ends(self, error: BaseException) -> bool:
        """Return whether the error cancels the task, closes its coroutine, or stops the loop."""
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError):
            return task is not None and task.cancelling() > 0
        return not isinstance(error, Exception)

    def heart(self, main: Callable[[], Coroutine[object, object, None]]) -> HeartTask:
        """Make the task of a heart. It is not started yet."""
        return HeartTask(main)

    def beside(self, main: Callable[[], Coroutine[object, object, None]]) -> HeartThread | None:
        """Make a thread that runs beside the loop. It is not started yet.

        None on a clock of the caller's: it may be virtual, as in a lab or a simulation, where a
        thread in real time would make every run different.
        """
        return HeartThread(main) if self.now is now else None

    def post(self, callback: Callable[[], object]) -> bool:
        """Have the loop call `callback` soon, from any thread. False if the loop does not run."""
        loop = self._loop
        if loop is None or not loop.is_running():
            return False
        try:
            loop.call_soon_threadsafe(callback)
        except RuntimeError:  # it was closed just now
            return False
        return True


_going_on: set[asyncio.Task[None]] = set()


async def completed(work: Coroutine[object, object, None]) -> None:
    """Run `work` to its end, even if the caller is cancelled.

    anyio cancels a cancelled task again at each `await`. So a `finally` could not even connect in
    order to release a lock.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # in a forked child: the parent's loop does not run here
        await work
        return
    task = loop.create_task(work)
    keep(task)
    await asyncio.shield(task)


def keep(task: asyncio.Task[None]) -> None:
    """Keep a task until its end. The loop has only weak references to its tasks."""
    _going_on.add(task)
    task.add_done_callback(_going_on.discard)
