"""The thread that uses the database for an asyncio client: no disk may block the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Job(Generic[T]):
    """One call for the worker. It belongs to whoever is first: the worker, or a caller who left."""

    def __init__(self, call: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        """Take the call, and the event loop that waits for its result."""
        self._call = call
        self._loop = loop
        self._owner: dict[str, str] = {}
        self.future: asyncio.Future[T] = loop.create_future()

    def begin(self) -> bool:
        """Take the job for the worker. False if its caller has left."""
        return self._owner.setdefault("owner", "worker") == "worker"

    def leave(self) -> bool:
        """Leave the job. True if it will not run. False if it has begun: its outcome is unknown."""
        return self._owner.setdefault("owner", "caller") == "caller"

    def run(self) -> None:
        """Run the call, and tell the loop."""
        try:
            result = self._call()
        except BaseException as error:  # noqa: BLE001  # the caller gets it
            self._tell(self._fail, error)
        else:
            self._tell(self._succeed, result)

    def _tell(self, how: Callable[[Any], None], what: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(how, what)

    def _succeed(self, result: T) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def _fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Worker:
    """A thread that runs jobs one after the other, and looks for grants in between."""

    def __init__(self, pause: Callable[[], float | None], look: Callable[[], object]) -> None:
        """Start no thread yet.

        `pause` returns the seconds until the next look, or None if there is nothing to look for.
        """
        self._pause = pause
        self._look = look
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._urgent: deque[Job[Any]] = deque()
        self._thread: threading.Thread | None = None

    def submit(self, job: Job[Any], *, urgent: bool = False) -> None:
        """Have the thread run a job; an urgent one before all others that have not begun.

        Start the thread with the first one.
        """
        if urgent:
            self._urgent.append(job)
            self._jobs.put(self.hurry)
        else:
            self._jobs.put(partial(_run, job))
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, name="lockfast-sqlite", daemon=True)
            self._thread.start()

    def hurry(self) -> None:
        """Run the urgent jobs. Only the thread itself may call this, also in the middle of a job
        that waits for the database: another process may keep that one waiting for long.
        """
        while self._urgent:
            _run(self._urgent.popleft())

    def stop(self) -> None:
        """End the thread after the jobs that it has."""
        if self._thread is not None:
            self._jobs.put(None)

    def _live(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._pause())
            except Empty:
                self._look()
                continue
            if job is None:
                return
            self.hurry()
            job()


def _run(job: Job[Any]) -> None:
    if job.begin():
        job.run()
