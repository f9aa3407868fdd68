"""The blocking runtime: threads."""

from __future__ import annotations

import _thread
import select
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from queue import Empty, SimpleQueue

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


class ThreadTurns:
    """Turns that threads take. In a queue of C code: `threading.Semaphore` has a plain lock inside,
    and a signal handler that takes a turn while its thread gives one back would wait for ever.
    """

    def __init__(self, size: int, clock: Clock) -> None:
        """Begin with nobody's."""
        self._now = clock
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(size):
            self._free.put(None)

    async def enter(self, deadline: float) -> bool:
        """Block until one is free."""
        try:
            self._free.get(timeout=max(deadline - self._now(), 0.0))
        except Empty:
            return False
        return True

    def leave(self) -> None:
        """Release the turn."""
        self._free.put(None)


class ThreadBell:
    """A bell made of a pair of sockets, so that poll hears it beside another socket."""

    def __init__(self, clock: Clock) -> None:
        """Begin silent."""
        self._now = clock
        self._hammer, self._gong = socket.socketpair()
        self._hammer.settimeout(0.0)
        self._gong.settimeout(0.0)

    def ring(self) -> None:
        """Ring. A full pipe has rung already; a closed one has nobody to wake."""
        try:
            self._hammer.send(b"!")
        except OSError:
            return

    async def wait(self, until: float | None, watched: int | None = None) -> bool:
        """Block this thread in poll."""
        poll = select.poll()
        poll.register(self._gong, select.POLLIN)
        if watched is not None:
            poll.register(watched, select.POLLIN)
        left = None if until is None else max(until - self._now(), 0.0) * 1000
        readable = False
        for descriptor, _ in poll.poll(left):
            if descriptor == watched:
                readable = True
            else:
                self._gong.recv(4096)
        return readable

    def close(self) -> None:
        """Close both ends."""
        self._hammer.close()
        self._gong.close()


class HeartThread:
    """A heart in a thread of its own. A daemon: it must not keep a finished program alive.

    Started without `threading.Thread`, whose `start` waits for the new thread: Ctrl-C in that wait
    can surface as a RuntimeError of its condition variable, and leave a phantom behind.
    """

    def __init__(self, main: Callable[[], Coroutine[object, object, None]]) -> None:
        """Do not start it yet."""
        self._main = main
        self._ident: int | None = None
        self._running = threading.Lock()

    def start(self) -> None:
        """Start it."""
        self._running.acquire()
        self._ident = _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        self._ident = threading.get_ident()
        try:
            drive(self._main())
        finally:
            self._running.release()

    def started(self) -> bool:
        """Return whether it runs, or ran."""
        return self._ident is not None

    def here(self) -> bool:
        """Compare the threads."""
        return self._ident == threading.get_ident()

    async def ended(self, timeout: float) -> bool:
        """Wait for it."""
        ended = self._running.acquire(timeout=timeout)
        if ended:
            self._running.release()
        return ended

    async def join(self, timeout: float) -> bool:
        """Wait for it, unless it is the caller (a callback that closes the client)."""
        if not self.started() or self.here():
            return not self.started()
        return await self.ended(timeout)


class _Me(threading.local):
    """Something of which every thread has its own, and the thread."""

    def __init__(self) -> None:
        self.owner = object()
        self.thread = threading.current_thread()


_me = _Me()


class Threads:
    """The runtime of blocking callers."""

    def __init__(self, clock: Clock = now) -> None:
        """Take the time from `clock`."""
        self.now = clock

    def event(self) -> ThreadEvent:
        """Make an event."""
        return ThreadEvent(self.now)

    def turns(self, size: int) -> ThreadTurns:
        """Make so many turns."""
        return ThreadTurns(size, self.now)

    def bell(self) -> ThreadBell:
        """Make a bell."""
        return ThreadBell(self.now)

    def worker(self) -> tuple[object, str]:
        """Identify and name the running thread. Not by its ident: the next thread may get the same,
        and would be taken for the holder of what this one left.
        """
        return _me.owner, _me.thread.name

    async def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)  # noqa: ASYNC251  # driven, so it must block

    def heart(self, main: Callable[[], Coroutine[object, object, None]]) -> HeartThread:
        """Make a thread for a heart."""
        return HeartThread(main)

    def forget(self) -> None:
        """Nothing is remembered."""

    def enter(self) -> None:
        """Any thread may use a blocking client."""
