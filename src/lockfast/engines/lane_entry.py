"""A request that waits in a lane, or that was sent together with others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from lockfast.port import Ask
from lockfast.runtime.base import Event

R = TypeVar("R")


class Entry(Generic[R]):
    """A request of one caller. Its hash is its identity, so that a dict changes in one step."""

    __slots__ = ("asks", "before", "deadline", "done", "due", "error", "event", "keys", "replies")

    def __init__(
        self,
        asks: Sequence[Ask],
        keys: Sequence[Hashable],
        deadline: float,
        due: float,
        before: Sequence[object],
    ) -> None:
        """Describe a request that was not sent yet.

        `due`: when it is sent, even if as many calls as allowed are under way.
        `before`: the calls that were under way when it arrived.
        """
        self.asks = asks
        self.keys = keys
        self.deadline = deadline
        self.due = due
        self.before = before
        self.event: Event | None = None
        self.done = False
        """Whether it has ended, or its caller has left. It is not sent any more."""
        self.replies: Sequence[R] | None = None
        self.error: Exception | None = None

    def wake(self) -> None:
        """Make the caller look at the lane again."""
        event = self.event
        if event is not None:
            event.set()

    def answered(self, replies: Sequence[R] | None) -> None:
        """End the request with its own replies. None: its caller must send it by itself."""
        self.replies = replies
        self.done = True
        self.wake()

    def failed(self, error: Exception | None) -> None:
        """End the request without replies, and have its claims sent by themselves from now on."""
        for ask in self.asks:
            ask.alone = True
        self.error = error
        self.done = True
        self.wake()
