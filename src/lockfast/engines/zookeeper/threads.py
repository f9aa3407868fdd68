"""The blocking transport: the calling thread waits for kazoo's connection thread."""

from __future__ import annotations

import threading
from typing import Any

from lockfast.engines.zookeeper.transport import Late, Reply
from lockfast.runtime.base import Clock


class ThreadReply:
    """A reply for threads: a one-shot event made of a bare lock."""

    __slots__ = ("_done", "error", "gate", "value")

    def __init__(self) -> None:
        """Start without an answer."""
        self.gate = threading.Lock()
        self.gate.acquire()
        self._done = False
        self.value: Any = None
        self.error: BaseException | None = None

    def set(self, value: Any = None) -> None:  # noqa: ANN401  # whatever the server said
        """Set the answer. Only the first answer or error counts."""
        self._settle(value, None)

    def set_exception(self, error: BaseException) -> None:
        """Set an error. Only the first answer or error counts."""
        self._settle(None, error)

    def _settle(self, value: object, error: BaseException | None) -> None:
        if not self._done:
            self._done = True
            self.value, self.error = value, error
            self.gate.release()


class ThreadTransport:
    """Waits for replies by blocking the calling thread."""

    def __init__(self, clock: Clock) -> None:
        """Read the time from `clock`."""
        self.now = clock

    def reply(self) -> ThreadReply:
        """Return a new reply that is not set yet."""
        return ThreadReply()

    async def wait(self, reply: Reply, deadline: float) -> Any:  # noqa: ANN401  # see Reply
        """Block until the reply is set, and return its value. Raise its error, or `Late`."""
        assert isinstance(reply, ThreadReply)  # noqa: S101  # a transport waits for its own
        if not reply.gate.acquire(timeout=min(max(deadline - self.now(), 0.0), 3600.0)):
            raise Late
        reply.gate.release()  # let the next waiter pass
        if reply.error is not None:
            raise reply.error
        return reply.value
