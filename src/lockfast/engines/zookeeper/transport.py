"""What the engine asks of its transport: replies to wait for."""

from __future__ import annotations

from typing import Any, Protocol

from lockfast.runtime.base import Clock


class Late(Exception):
    """No reply came by the deadline."""


class Reply(Protocol):
    """A reply to come. kazoo's connection thread sets it: the driver's own result would go by way
    of a second thread.
    """

    def set(self, value: Any = None) -> None:  # noqa: ANN401  # whatever the server said
        """Receive the answer."""

    def set_exception(self, error: BaseException) -> None:
        """Receive an error."""


class Transport(Protocol):
    """Threads, or asyncio."""

    now: Clock

    def reply(self) -> Reply:
        """Make a reply to come."""
        ...

    async def wait(self, reply: Reply, deadline: float) -> Any:  # noqa: ANN401  # see Reply
        """Wait for a reply; raises its error, or `Late`. Any number may wait for one."""
