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


class Happening(asyncio.TimerHandle):
    """Something that will happen in a process: a handle without what nobody asks here."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[[Unpack[Ts]], object],
        args: tuple[*Ts],
        context: contextvars.Context | None,
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        """Let it not happen: it is passed over when its time comes."""
        self._cancelled = True


class World:
    """The time, and everything that will happen."""

    def __init__(self, *, tracing: bool) -> None:
        self.now = 0.0
        self.tracing = tracing
        self.trace: list[str] = []
        self.halted = False
        self.agenda: list[tuple[float, int, Process, Happening]] = []
        self._ties = count()

    def say(self, who: str, what: str) -> None:
        """Write a line of the trace."""
        self.trace.append(f"{self.now:9.4f}  {who:9} {what}")

    def post(self, delay: float, process: Process, what: Happening) -> None:
        """Let something happen in a process."""
        heapq.heappush(self.agenda, (self.now + delay, next(self._ties), process, what))

    def run(self, limit: float) -> bool:
        """Let things happen until somebody halts the world; False if the time was over first."""
        self.halted = False
        agenda = self.agenda
        set_running = asyncio._set_running_loop
        try:
            while not self.halted:
                if not agenda or agenda[0][0] > limit:
                    self.now = limit
                    return False
                when, tie, process, what = heapq.heappop(agenda)
                if what._cancelled:
                    continue
                if process.frozen > when:  # it happens when the process goes on, in the same order
                    if process.frozen < FOREVER:
                        heapq.heappush(agenda, (process.frozen, tie, process, what))
                    continue
                self.now = when
                set_running(process)
                what._context.run(what._callback, *what._args)
                if process.after is not None:
                    process.after()
        except Broken:
            raise
        except Exception as error:
            raise Broken(f"an error that nobody caught: {error!r}") from error
        finally:
            set_running(None)
        return True


class Loop(asyncio.AbstractEventLoop):
    """What is the same in all event loops without sockets."""

    dial: Callable[..., Coroutine[Any, Any, Any]] | None = None
    """Connects it to a host, where there is a network that knows connections."""

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

    async def create_connection(  # type: ignore[override]  # what is used of it
        self, protocol_factory: Callable[[], asyncio.Protocol], host: str, port: int, **_: object
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        del port
        assert self.dial is not None
        made: tuple[asyncio.Transport, asyncio.Protocol] = await self.dial(
            self, protocol_factory, host
        )
        return made

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


class Process(Loop):
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
        what = Happening(callback, args, context)
        self.world.post(0.0, self, what)
        return what

    call_soon_threadsafe = call_soon  # there is one thread

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        what = Happening(callback, args, context)
        self.world.post(delay / self.rate + INSTANT, self, what)
        return what

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
