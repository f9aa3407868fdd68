"""Virtual time, and processes that share it: each is an event loop with a clock of its own.

Why no ready-made loop with a virtual clock (async-solipsism): it is one loop for all, and a process
that is frozen, or whose clock drifts, needs a loop whose timers are its own.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, Self, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
INSTANT = 1e-6  # timers fire that much late: rounding must never make one fire early
FOREVER = float("inf")


class Broken(Exception):
    """A rule was broken in a run."""


class World:
    """The time, and everything that will happen."""

    def __init__(self, *, tracing: bool) -> None:
        self.now = 0.0
        self.tracing = tracing
        self.trace: list[str] = []
        self.halted = False
        self.agenda: list[tuple[float, int, Process, asyncio.Handle]] = []
        self._ties = count()

    def say(self, who: str, what: str) -> None:
        """Write a line of the trace."""
        self.trace.append(f"{self.now:9.4f}  {who:9} {what}")

    def post(self, delay: float, process: Process, handle: asyncio.Handle) -> None:
        """Let something happen in a process."""
        heapq.heappush(self.agenda, (self.now + delay, next(self._ties), process, handle))

    def run(self, limit: float) -> bool:
        """Let things happen until somebody halts the world; False if the time was over first."""
        self.halted = False
        agenda = self.agenda
        set_running = asyncio._set_running_loop
        while not self.halted:
            if not agenda or agenda[0][0] > limit:
                self.now = limit
                return False
            when, tie, process, handle = heapq.heappop(agenda)
            if process.frozen > when:  # it happens when the process goes on, in the same order
                if process.frozen < FOREVER:
                    heapq.heappush(agenda, (process.frozen, tie, process, handle))
                continue
            if handle.cancelled():
                continue
            self.now = when
            set_running(process)
            try:
                handle._run()
            finally:
                set_running(None)
            if process.after is not None:
                process.after()
        return True


class Process(asyncio.AbstractEventLoop):
    """A process that can be frozen: its timers stop, its clock does not, and it is not told."""

    def __init__(self, world: World, name: str, *, start: float = 0.0, rate: float = 1.0) -> None:
        """Use `new`."""
        self.world = world
        self.name = name
        self.start = start
        self.rate = rate
        self.frozen = 0.0
        self.tasks: list[asyncio.Task[Any]] = []
        self.after: Callable[[], None] | None = None
        """Called after everything that happens in it."""

    @classmethod
    def new(cls, world: World, name: str, *, start: float = 0.0, rate: float = 1.0) -> Self:
        """Make one. Only typing thinks that a loop without sockets and signals is abstract."""
        return cls(world, name, start=start, rate=rate)

    def time(self) -> float:
        """Tell the local time."""
        return self.start + self.world.now * self.rate

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self.world.post(0.0, self, handle)
        return handle

    call_soon_threadsafe = call_soon  # there is one thread

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.time() + delay, callback, args, self, context)
        self.world.post(delay / self.rate + INSTANT, self, handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_later(when - self.time(), callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T],  # type: ignore[override]  # typeshed takes generators too
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name or "worker", context=context)
        self.tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Broken):
            raise error
        raise Broken(f"an error that nobody caught: {context}") from error

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing: a cancelled timer is passed over when its time comes."""
