"""The blocking runtime: threads."""

from __future__ import annotations

import _thread
import select
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from queue import Empty, SimpleQueue
from typing import Any

from lockfast.runtime.base import Clock, Crowded, T, now
from lockfast.runtime.drive import drive
from lockfast.runtime.mutex import Mutex


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
    """A semaphore for threads, made of a queue of C code: `threading.Semaphore` has a plain lock
    inside, and a signal handler that enters while its thread leaves would wait for ever.
    """

    def __init__(self, size: int, clock: Clock) -> None:
        """Begin with all turns free."""
        self._now = clock
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(size):
            self._free.put(None)

    async def hold(self, work: Callable[[], Coroutine[Any, Any, T]], deadline: float) -> T:
        """Block until a turn is free."""
        left = max(deadline - self._now(), 0.0)
        taken: list[None] = []
        try:
            try:
                # From the queue into the list in one call of C code: a signal handler that raises
                # runs behind it, and not between the two.
                taken.extend(map(self._free.get, (True,), (left,)))
            except Empty:
                raise Crowded from None
            return await work()
        finally:
            if taken:
                self._free.put(None)


class ThreadMutex:
    """One thread at a time, and the same thread again."""

    def __init__(self, clock: Clock) -> None:
        """Begin free."""
        self._now = clock
        self._lock = Mutex()

    async def hold(self, work: Callable[[], Coroutine[Any, Any, T]], deadline: float) -> T:
        """Block until it is free."""
        if self._lock.inside():
            return await work()
        try:
            if not self._lock.acquire(timeout=max(deadline - self._now(), 0.0)):
                raise Crowded
            return await work()
        finally:
            if self._lock.inside():  # also if Ctrl-C came right behind `acquire`
                self._lock.release()


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
        """Make a semaphore."""
        return ThreadTurns(size, self.now)

    def mutex(self) -> ThreadMutex:
        """Make a mutex."""
        return ThreadMutex(self.now)

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

    def ends(self, _error: BaseException) -> bool:
        """Return False: nothing is meant for a thread, `sys.exit()` in a callback included."""
        return False

    def heart(self, main: Callable[[], Coroutine[object, object, None]]) -> HeartThread:
        """Make a thread for a heart."""
        return HeartThread(main)

    def forget(self) -> None:
        """Nothing is remembered."""

    def enter(self) -> None:
        """Any thread may use a blocking client."""
