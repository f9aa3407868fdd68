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
    """A coroutine at work beside the test."""

    @abstractmethod
    def done(self) -> bool:
        """Return whether it has ended."""

    @abstractmethod
    async def result(self, timeout: float = PATIENCE) -> T_co:
        """Wait for its end, and give what it gave or raise what it raised."""


class Mode(ABC):
    """Threads or asyncio."""

    name: str

    @abstractmethod
    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a test body to its end."""

    @abstractmethod
    def runtime(self, clock: Clock) -> Threads | Aio:
        """Make the runtime that an engine of this mode is opened with."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Let real time pass."""

    @abstractmethod
    def start(self, coroutine: Coroutine[Any, Any, T]) -> Job[T]:
        """Let a coroutine work in a thread, or a task, of its own."""

    def close(self) -> None:  # noqa: B027  # threads have nothing to give back
        """Give back what `run` needed."""

    async def together(
        self, *coroutines: Coroutine[Any, Any, T], timeout: float = PATIENCE
    ) -> list[T]:
        """Let all work at once, and give their results in order."""
        jobs = [self.start(each) for each in coroutines]
        return [await job.result(timeout) for job in jobs]

    async def until(
        self, condition: Callable[[], object], what: str, timeout: float = PATIENCE
    ) -> None:
        """Wait for a condition, or fail and say which."""
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"not within {timeout:g} s: {what}")
            await self.sleep(0.005)


class ThreadJob(Job[T]):
    """A coroutine that a thread drives."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        """Start the thread. A daemon: a test that hangs must not keep pytest from ending."""
        self._coroutine = coroutine
        self._values: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._values.append(drive(self._coroutine))
        except BaseException as error:  # noqa: BLE001  # whatever it is, `result` raises it
            self._error = error

    def done(self) -> bool:
        """Return whether the thread has ended."""
        return not self._thread.is_alive()

    async def result(self, timeout: float = PATIENCE) -> T:
        """Join the thread."""
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
        """Wait for the task."""
        done, _ = await asyncio.wait([self.task], timeout=timeout)
        if not done:
            self.task.cancel()
            raise AssertionError(f"still at work after {timeout:g} s")
        return self.task.result()


class Threaded(Mode):
    """Blocking code: nothing that a body awaits ever suspends."""

    name = "threads"

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Drive."""
        return drive(coroutine)

    def runtime(self, clock: Clock) -> Threads:
        """Make the blocking runtime."""
        return Threads(clock)

    async def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)  # noqa: ASYNC251  # driven, so it must block

    def start(self, coroutine: Coroutine[Any, Any, T]) -> ThreadJob[T]:
        """Start a thread."""
        return ThreadJob(coroutine)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes event loops, as the environment says; None for asyncio's default.

    LOCKFAST_TEST_LOOP=uvloop runs the asyncio half of every test on uvloop, in the programs that
    tests start too. uvicorn installs uvloop, and its transports are no subclasses of asyncio's.
    """
    name = os.environ.get(LOOP, "asyncio")
    if name == "asyncio":
        return None
    if name != "uvloop":
        raise ValueError(f"{LOOP} is asyncio or uvloop, not {name!r}")
    import uvloop  # noqa: PLC0415  # for those alone who ask for it

    return uvloop.new_event_loop


class Tasked(Mode):
    """asyncio: one loop for a whole test, so that connections outlive a `run`."""

    name = "asyncio"

    def __init__(self) -> None:
        """Make the loop: asyncio's own, or uvloop's if LOCKFAST_TEST_LOOP says so."""
        self._runner = asyncio.Runner(loop_factory=loop_factory())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run in the loop."""
        return self._runner.run(coroutine)

    def runtime(self, clock: Clock) -> Aio:
        """Make the asyncio runtime."""
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
