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
    """A one-shot event made of a plain lock, at a tenth of the cost of `threading.Event`."""

    __slots__ = ("_gate", "_now")

    def __init__(self, clock: Clock) -> None:
        """Start unset, with the gate locked."""
        self._now = clock
        self._gate = threading.Lock()
        self._gate.acquire()

    def set(self) -> None:
        """Open the gate. It may be open already, because a wake-up may come twice."""
        try:
            self._gate.release()
        except RuntimeError:
            return

    async def wait(self, until: float | None) -> bool:
        """Block this thread until `set` or the time `until`. Signals interrupt the main thread."""
        if until is None:
            return self._gate.acquire()
        left = until - self._now()
        return self._gate.acquire(timeout=min(max(left, 0.0), threading.TIMEOUT_MAX))


class ThreadTurns:
    """A counting semaphore for threads, made of a `SimpleQueue`, which is C code.

    `threading.Semaphore` has a plain lock inside. A signal handler that acquires the semaphore
    while its own thread releases it would wait for that lock for ever.
    """

    def __init__(self, size: int, clock: Clock) -> None:
        """Start with all turns free."""
        self._now = clock
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(size):
            self._free.put(None)

    async def hold(self, work: Callable[[], Coroutine[Any, Any, T]], deadline: float) -> T:
        """Block this thread until a turn is free, then run `work`."""
        left = max(deadline - self._now(), 0.0)
        taken: list[None] = []
        try:
            try:
                # One call of C code moves the turn from the queue to the list. A signal handler
                # that raises runs after the call and not in between, where a turn would be lost.
                taken.extend(map(self._free.get, (True,), (left,)))
            except Empty:
                raise Crowded from None
            return await work()
        finally:
            if taken:
                self._free.put(None)


class ThreadMutex:
    """A mutex for threads. The thread that is inside may enter again."""

    def __init__(self, clock: Clock) -> None:
        """Start free."""
        self._now = clock
        self._lock = Mutex()

    async def hold(self, work: Callable[[], Coroutine[Any, Any, T]], deadline: float) -> T:
        """Block this thread until no other is inside, then run `work`."""
        if self._lock.inside():
            return await work()
        try:
            if not self._lock.acquire(timeout=max(deadline - self._now(), 0.0)):
                raise Crowded
            return await work()
        finally:
            if self._lock.inside():  # also if Ctrl-C came right after `acquire`
                self._lock.release()


class ThreadBell:
    """A bell made of a socket pair, so that `poll` can wait for it and another socket at once."""

    def __init__(self, clock: Clock) -> None:
        """Start silent."""
        self._now = clock
        self._hammer, self._gong = socket.socketpair()
        self._hammer.settimeout(0.0)
        self._gong.settimeout(0.0)

    def ring(self) -> None:
        """Ring. If the buffer is full, it has rung already. If it is closed, nobody sleeps."""
        try:
            self._hammer.send(b"!")
        except OSError:
            return

    async def wait(self, until: float | None, watched: int | None = None) -> bool:
        """Block this thread in `poll` until a ring, the time `until`, or something to read."""
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
    """The thread of a heart. It is a daemon, because it must not keep a finished program alive.

    It is started without `threading.Thread`, whose `start` waits for the new thread. Ctrl-C in that
    wait can surface as a RuntimeError of its condition variable, and leave a phantom thread behind.
    """

    def __init__(self, main: Callable[[], Coroutine[object, object, None]]) -> None:
        """Prepare a thread for `main`. `start` starts it."""
        self._main = main
        self._ident: int | None = None
        self._running = threading.Lock()

    def start(self) -> None:
        """Start the thread, without waiting for it."""
        self._running.acquire()
        self._ident = _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        self._ident = threading.get_ident()
        try:
            drive(self._main())
        finally:
            self._running.release()

    def started(self) -> bool:
        """Return whether the thread was started, also if it has ended."""
        return self._ident is not None

    def here(self) -> bool:
        """Return whether the caller runs in this thread."""
        return self._ident == threading.get_ident()

    async def ended(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the thread's end. False if it still runs."""
        ended = self._running.acquire(timeout=timeout)
        if ended:
            self._running.release()
        return ended

    async def join(self, timeout: float) -> bool:
        """Wait like `ended`. False if the caller is this thread (a callback closes the client)."""
        if not self.started() or self.here():
            return not self.started()
        return await self.ended(timeout)


class _Me(threading.local):
    """Values of which every thread has its own: an object that identifies it, and the thread."""

    def __init__(self) -> None:
        self.owner = object()
        self.thread = threading.current_thread()


_me = _Me()


class Threads:
    """The runtime of blocking callers."""

    def __init__(self, clock: Clock = now) -> None:
        """Read the time from `clock`."""
        self.now = clock

    def event(self) -> ThreadEvent:
        """Make a one-shot event."""
        return ThreadEvent(self.now)

    def turns(self, size: int) -> ThreadTurns:
        """Make a semaphore that admits `size` threads at once."""
        return ThreadTurns(size, self.now)

    def mutex(self) -> ThreadMutex:
        """Make a re-entrant mutex."""
        return ThreadMutex(self.now)

    def bell(self) -> ThreadBell:
        """Make a bell."""
        return ThreadBell(self.now)

    def worker(self) -> tuple[object, str]:
        """Return an object that identifies the running thread, and the thread's name.

        The thread's ident does not identify it. A later thread may get the same ident, and would
        be taken for the holder of the locks that this thread left behind.
        """
        return _me.owner, _me.thread.name

    async def sleep(self, seconds: float) -> None:
        """Block this thread for `seconds`."""
        time.sleep(seconds)  # noqa: ASYNC251  # driven, so it must block

    async def apart(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in this thread, to its end."""
        await work

    def ends(self, _error: BaseException) -> bool:
        """Return False: no error of a callback ends the thread, not even that of `sys.exit()`."""
        return False

    def heart(self, main: Callable[[], Coroutine[object, object, None]]) -> HeartThread:
        """Make the thread of a heart. It is not started yet."""
        return HeartThread(main)

    def beside(self, _main: Callable[[], Coroutine[object, object, None]]) -> None:
        """Return None: the heart is a thread already, and no caller can block it."""

    def post(self, _callback: Callable[[], object]) -> bool:
        """Return False: there is no event loop."""
        return False

    def forget(self) -> None:
        """Do nothing: this runtime keeps nothing of the parent."""

    def enter(self) -> None:
        """Do nothing: any thread may use a blocking client."""
