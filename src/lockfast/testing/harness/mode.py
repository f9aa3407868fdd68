"""The two modes, threads and asyncio: one test body runs in each."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from lockfast.runtime.aio import Aio
from lockfast.runtime.base import Clock
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
LOOP = "LOCKFAST_TEST_LOOP"  # the environment variable that names the event loop of the tests
PATIENCE = 20.0  # seconds after which a test gives up on what should have happened at once


class Job(ABC, Generic[T_co]):
    """A coroutine that runs beside the test, in a thread or task of its own."""

    @abstractmethod
    def done(self) -> bool:
        """Return whether it has ended."""

    @abstractmethod
    async def result(self, timeout: float = PATIENCE) -> T_co:
        """Wait for its end, and return its result or raise its error."""


class Mode(ABC):
    """How a test runs: with threads, or with asyncio."""

    name: str

    @abstractmethod
    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a test body to its end."""

    @abstractmethod
    def runtime(self, clock: Clock) -> Threads | Aio:
        """Return the runtime with which an engine of this mode is opened."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Sleep in real time."""

    @abstractmethod
    def start(self, coroutine: Coroutine[Any, Any, T]) -> Job[T]:
        """Start a coroutine in a thread, or a task, of its own."""

    def close(self) -> None:  # noqa: B027  # threads have nothing to close
        """Close what `run` needed."""

    async def together(
        self, *coroutines: Coroutine[Any, Any, T], timeout: float = PATIENCE
    ) -> list[T]:
        """Run all coroutines at once, and return their results in order."""
        jobs = [self.start(each) for each in coroutines]
        return [await job.result(timeout) for job in jobs]

    async def until(
        self, condition: Callable[[], object], what: str, timeout: float = PATIENCE
    ) -> None:
        """Wait until a condition is true. After the timeout, fail with `what` in the message."""
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"not within {timeout:g} s: {what}")
            await self.sleep(0.005)


class ThreadJob(Job[T]):
    """A coroutine that runs in a thread."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        """Start a daemon thread, so that a test that hangs does not keep pytest from ending."""
        self._coroutine = coroutine
        self._values: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._values.append(drive(self._coroutine))
        except BaseException as error:  # noqa: BLE001  # `result` raises it
            self._error = error

    def done(self) -> bool:
        """Return whether the thread has ended."""
        return not self._thread.is_alive()

    async def result(self, timeout: float = PATIENCE) -> T:
        """Join the thread, and return the coroutine's result or raise its error."""
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        if not self._values:
            raise AssertionError(f"still at work after {timeout:g} s")
        return self._values[0]


class TaskJob(Job[T]):
    """A coroutine in a task."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        """Start the task."""
        self.task = asyncio.get_running_loop().create_task(coroutine)

    def done(self) -> bool:
        """Return whether the task has ended."""
        return self.task.done()

    async def result(self, timeout: float = PATIENCE) -> T:
        """Wait for the task, and return its result or raise its error."""
        done, _ = await asyncio.wait([self.task], timeout=timeout)
        if not done:
            self.task.cancel()
            raise AssertionError(f"still at work after {timeout:g} s")
        return self.task.result()


class Threaded(Mode):
    """Blocking code: nothing that a body awaits ever suspends."""

    name = "threads"

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine to its end without an event loop."""
        return drive(coroutine)

    def runtime(self, clock: Clock) -> Threads:
        """Return the blocking runtime."""
        return Threads(clock)

    async def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)  # noqa: ASYNC251  # no event loop runs this: it must block

    def start(self, coroutine: Coroutine[Any, Any, T]) -> ThreadJob[T]:
        """Start a thread."""
        return ThreadJob(coroutine)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the event loop factory that the environment names; None for asyncio's default.

    LOCKFAST_TEST_LOOP=uvloop runs the asyncio half of every test on uvloop, also in the programs
    that tests start. This matters because uvicorn installs uvloop, and the transports of uvloop
    are not subclasses of asyncio's.
    """
    name = os.environ.get(LOOP, "asyncio")
    if name == "asyncio":
        return None
    if name != "uvloop":
        raise ValueError(f"{LOOP} is asyncio or uvloop, not {name!r}")
    import uvloop  # noqa: PLC0415  # only runs that ask for it need it

    return uvloop.new_event_loop


class Tasked(Mode):
    """asyncio: one loop for a whole test, so that connections outlive a `run`."""

    name = "asyncio"

    def __init__(self) -> None:
        """Make the loop: asyncio's own, or uvloop's if LOCKFAST_TEST_LOOP says so."""
        self._runner = asyncio.Runner(loop_factory=loop_factory())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine in the loop of this mode."""
        return self._runner.run(coroutine)

    def runtime(self, clock: Clock) -> Aio:
        """Return the asyncio runtime."""
        return Aio(clock)

    async def sleep(self, seconds: float) -> None:
        """Suspend this task."""
        await asyncio.sleep(seconds)

    def start(self, coroutine: Coroutine[Any, Any, T]) -> TaskJob[T]:
        """Start a task."""
        return TaskJob(coroutine)

    def close(self) -> None:
        """Close the loop."""
        self._runner.close()


MODES: dict[str, type[Mode]] = {"threads": Threaded, "asyncio": Tasked}
