"""The asyncio transport: kazoo's connection thread sets futures of the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from lockfast.engines.zookeeper.transport import Late, Reply
from lockfast.runtime.base import Clock


class AioReply:
    """A reply for asyncio: a one-shot event made of a future."""

    __slots__ = ("_loop", "future")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start without an answer."""
        self._loop = loop
        self.future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def set(self, value: Any = None) -> None:  # noqa: ANN401  # whatever the server said
        """Set the answer. Only the first answer or error counts."""
        self._tell(value, None)

    def set_exception(self, error: BaseException) -> None:
        """Set an error. Only the first answer or error counts."""
        self._tell(None, error)

    def _tell(self, value: object, error: BaseException | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, value, error)
        except RuntimeError:  # the loop is closed, so nobody waits
            return

    def _settle(self, value: object, error: BaseException | None) -> None:
        if not self.future.done():
            self.future.set_result((value, error))


class AioTransport:
    """Waits for replies in the tasks of one event loop."""

    def __init__(self, clock: Clock) -> None:
        """Bind to the running event loop."""
        self.now = clock
        self._loop = asyncio.get_running_loop()

    def reply(self) -> AioReply:
        """Return a new reply that is not set yet."""
        return AioReply(self._loop)

    async def wait(self, reply: Reply, deadline: float) -> Any:  # noqa: ANN401  # see Reply
        """Wait until the reply is set, and return its value. Raise its error, or `Late`. Cancelling
        the task does not cancel the reply, because other tasks may wait for it.
        """
        assert isinstance(reply, AioReply)  # noqa: S101  # a transport waits for its own
        future = reply.future
        if not future.done():
            await asyncio.wait([future], timeout=max(deadline - self.now(), 0.0))
            if not future.done():
                raise Late
        value, error = future.result()
        if error is not None:
            raise error
        return value
