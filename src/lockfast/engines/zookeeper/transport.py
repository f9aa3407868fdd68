"""The transport protocol: how the engine waits for replies from kazoo's connection thread."""

from __future__ import annotations

from typing import Any, Protocol

from lockfast.runtime.base import Clock


class Late(Exception):
    """No reply came by the deadline."""


class Reply(Protocol):
    """A reply that may not have arrived yet. kazoo's connection thread sets it directly, because
    kazoo's own result objects pass through a second thread.
    """

    def set(self, value: Any = None) -> None:  # noqa: ANN401  # whatever the server said
        """Set the server's answer, and wake the waiters."""

    def set_exception(self, error: BaseException) -> None:
        """Set an error instead of an answer, and wake the waiters."""


class Transport(Protocol):
    """Makes replies and waits for them, with threads or with asyncio."""

    now: Clock

    def reply(self) -> Reply:
        """Return a new reply that is not set yet."""
        ...

    async def wait(self, reply: Reply, deadline: float) -> Any:  # noqa: ANN401  # see Reply
        """Wait for a reply and return its value. Raise its error, or `Late` at the deadline.
        Several callers may wait for one reply.
        """
