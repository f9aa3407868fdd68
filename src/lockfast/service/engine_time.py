"""The engine's time: asks the engine for a reply that tells it, until it is known."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from lockfast.errors import EngineUnavailable, LockfastError, quoted
from lockfast.port import Engine
from lockfast.service.replies import internal
from lockfast.service.tasks import Tasks

Then = Callable[[Exception | None], None]


class Waiting(NamedTuple):
    """A request that cannot go on until the time is known."""

    name: str
    then: Then


class EngineTime:
    """Learns the time of the server that has a name.

    Each server has a clock of its own, and one reply of it is enough. So the names are looked at
    one after the other, and most of them need no request any more when it is their turn.
    """

    def __init__(self, engine: Engine, tasks: Tasks) -> None:
        """Begin without requests."""
        self._engine = engine
        self._tasks = tasks
        self._waiting: deque[Waiting] = deque()
        self._asking = False

    def __len__(self) -> int:
        """Return how many requests wait."""
        return len(self._waiting)

    def learn(self, name: str, then: Then) -> None:
        """Call `then` once `Engine.time` of a name is known, or with the error that prevents it."""
        self._waiting.append(Waiting(name, then))
        if not self._asking:
            self._asking = True
            self._tasks.start(self._ask())

    async def _ask(self) -> None:
        try:
            while self._waiting:
                name, then = self._waiting[0]
                error = await self._time_of(name)
                if error is None:
                    self._waiting.popleft()
                    then(None)
                    continue
                # The others would wait for one deadline each. They ask again.
                failed, self._waiting = self._waiting, deque()
                for each in failed:
                    each.then(error)
        finally:
            self._asking = False

    async def _time_of(self, name: str) -> Exception | None:
        """Cause a reply that tells the time. Return the error if there is none."""
        if self._engine.time(name) is not None:
            return None
        try:
            await self._engine.inspect(name, None, exact=True)  # the smallest request of the port
        except LockfastError as error:
            why = quoted(error)
        except Exception as error:  # noqa: BLE001  # it is logged
            why = internal(error).message
        else:
            if self._engine.time(name) is not None:
                return None
            why = "the engine does not tell its time"
        return EngineUnavailable(why, sent=False)
