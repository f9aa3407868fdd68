"""Machines: event loops in virtual time, each with a processor that can be busy.

`simulation.world` has no processors, and copies a context for each callback. A storm is about
processors that cannot keep up, and has a hundred million callbacks.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, Self, TypeVar, TypeVarTuple, Unpack

from tests.robustness.simulation.world import INSTANT, Broken, Happening, Loop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Time:
    """The time, and everything that will happen."""

    def __init__(self, *, tracing: bool) -> None:
        self.now = 0.0
        self.tracing = tracing
        self.trace: list[str] = []
        self._agenda: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._ties = count()

    def say(self, who: str, what: str) -> None:
        """Write a line of the trace."""
        if self.tracing:
            self.trace.append(f"{self.now:9.4f}  {who:11} {what}")

    def at(self, when: float, what: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Let something happen at an instant, outside all machines."""
        heapq.heappush(self._agenda, (when, next(self._ties), what, args))

    def run(self, until: float) -> None:
        """Let things happen until an instant."""
        agenda, pop = self._agenda, heapq.heappop
        while agenda and agenda[0][0] <= until:
            self.now, _, what, args = pop(agenda)
            what(*args)
        self.now = until


class Machine(Loop):
    """An event loop. While its processor is busy, its callbacks wait."""

    def __init__(self, time: Time, name: str) -> None:
        """Use `new`."""
        self.name = name
        self.busy = 0.0
        """Until when its processor is busy."""
        self.dead = False
        self.ready: deque[Happening] = deque()
        self._world = time
        self._due = False
        """Whether `_turn` is about to run, or runs."""

    @classmethod
    def new(cls, time: Time, name: str) -> Self:
        """Make one. Only typing thinks that a loop without sockets and signals is abstract."""
        return cls(time, name)

    def time(self) -> float:
        """Return the time. All clocks agree here: `simulation.run` has clocks that do not."""
        return self._world.now

    @property
    def free(self) -> float:
        """When it has done what it does now: what it sends leaves then."""
        return max(self.busy, self._world.now)

    def charge(self, seconds: float) -> None:
        """Spend processor time."""
        self.busy = self.free + seconds

    def kill(self) -> None:
        """End it, with everything that would have happened in it."""
        self.dead = True
        self.ready.clear()

    def _turn(self) -> None:
        """Run what is ready, until the processor is busy."""
        world, ready = self._world, self.ready
        asyncio._set_running_loop(self)
        try:
            while ready:
                if self.busy > world.now:
                    world.at(self.busy, self._turn)
                    return
                what = ready.popleft()
                if not what._cancelled:
                    what._context.run(what._callback, *what._args)
        except Broken:
            raise
        except Exception as error:
            raise Broken(f"an error that nobody caught: {error!r}") from error
        finally:
            asyncio._set_running_loop(None)
        self._due = False

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        what = Happening(callback, args, context)
        self._enqueue(what)
        return what

    call_soon_threadsafe = call_soon  # there is one thread

    def _enqueue(self, what: Happening) -> None:
        if self.dead or what._cancelled:
            return
        self.ready.append(what)
        if not self._due:
            self._due = True
            self._world.at(self.free, self._turn)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        what = Happening(callback, args, context)
        self._world.at(self._world.now + max(delay, 0.0) + INSTANT, self._enqueue, what)
        return what

    def create_task(
        self,
        coro: Coroutine[Any, Any, T],  # type: ignore[override]  # typeshed takes generators too
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        return asyncio.Task(coro, loop=self, name=name or "worker", context=context)
