"""The blocking colour: threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine

from lockfast.runtime.base import Clock, now
from lockfast.runtime.drive import drive


class ThreadEvent:
    """A one-shot event made of a bare lock: a tenth of the cost of `threading.Event`."""

    __slots__ = ("_gate", "_now")

    def __init__(self, clock: Clock) -> None:
        """Begin unset: the gate is closed."""
        self._now = clock
        self._gate = threading.Lock()
        self._gate.acquire()

    def set(self) -> None:
        """Open the gate. Opening an open one is fine: wake-ups may be doubled."""
        try:
            self._gate.release()
        except RuntimeError:
            return

    async def wait(self, until: float | None) -> bool:
        """Block this thread; interruptible by signals in the main thread."""
        if until is None:
            return self._gate.acquire()
        left = until - self._now()
        return self._gate.acquire(timeout=min(max(left, 0.0), threading.TIMEOUT_MAX))


class HeartThread:
    """A heart in a thread of its own. A daemon: it must not keep a finished program alive."""

    def __init__(self, main: Callable[[], Coroutine[object, object, None]]) -> None:
        """Start it."""
        self._thread = threading.Thread(
            target=lambda: drive(main()), name="lockfast-heart", daemon=True
        )
        self._thread.start()

    async def join(self, timeout: float) -> None:
        """Wait for it, unless it is the caller (a callback that closes the client)."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)


class Threads:
    """The runtime of blocking callers."""

    def __init__(self, clock: Clock = now) -> None:
        """Take the time from `clock`."""
        self.now = clock

    def event(self) -> ThreadEvent:
        """Make an event."""
        return ThreadEvent(self.now)

    def owner(self) -> object:
        """Identify the running thread."""
        return threading.get_ident()

    def worker(self) -> str:
        """Name the running thread."""
        return threading.current_thread().name

    async def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)  # noqa: ASYNC251  # driven, so it must block

    def start(self, main: Callable[[], Coroutine[object, object, None]]) -> HeartThread:
        """Run a heart in a thread of its own."""
        return HeartThread(main)

    def forget(self) -> None:
        """Nothing is remembered."""

    def enter(self) -> None:
        """Any thread may use a blocking client."""
