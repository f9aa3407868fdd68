"""An attempt to connect, for which several callers wait."""

from __future__ import annotations

from lockfast.errors import EngineError
from lockfast.runtime.base import Event


class Opening:
    """An attempt to connect. Each step is one operation on a dict, so that a signal handler may use
    it wherever it interrupts.
    """

    def __init__(self, due: float) -> None:
        """Begin an attempt. `due`: when it must have ended."""
        self.due = due
        self.error: EngineError | None = None
        """Why it has failed."""
        self._over = False
        self._waiting: dict[Event, None] = {}

    async def wait(self, event: Event, deadline: float) -> None:
        """Wait until the attempt has ended, or until the deadline. `event`: a new one."""
        self._waiting[event] = None
        try:
            if not self._over:  # else `end` may have missed the event
                await event.wait(min(deadline, self.due))
        finally:
            self._waiting.pop(event, None)

    def end(self, error: EngineError | None) -> None:
        """End the attempt, and wake those who wait for it."""
        self.error = error
        self._over = True
        for event in list(self._waiting):
            event.set()
