"""What the engine asks of its transports: one request to all nodes, answers as they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lockfast.engines.redis.transport import Address, Login
from lockfast.engines.redlock import messages
from lockfast.errors import EngineError

Answer = list[Any] | EngineError
Hear = Callable[[int, Answer], float]
"""Take a node's answer; give how many seconds more to wait for others: 0 if that was enough."""


def ignored(node: int, reply: Any) -> None:
    """Take a late reply for nothing."""
    del node, reply


AGAIN = (0.1, 2.0)  # seconds between attempts to reach a node that is down: from, to


@dataclass(frozen=True, slots=True)
class Introduction(Login):
    """How to greet a node: it must say whether it is the process it was."""

    def greeting(self, address: Address) -> list[bytes]:
        """Greet, and have it forget its membership if it has started anew."""
        *hello, time = Login.greeting(self, address)
        return [*hello, messages.enter(), time]


class Transport(Protocol):
    """A transport to several nodes, for threads or for asyncio."""

    nodes: Sequence[Address]
    late: Callable[[int, Any], object]
    """Called with each reply that came when nobody waited for it any more."""
    lost: Callable[[int], object]
    """Called when a connection to a node ended: what was written last may not have arrived."""

    async def scatter(
        self,
        requests: Sequence[bytes | None],
        count: int,
        deadline: float,
        hear: Hear | None,
        *,
        heart: bool = False,
    ) -> None:
        """Send each node its request, and hear `count` replies of each until it is enough.

        All are written before the first is read. Nodes that are silent at the end may have got
        theirs; a later request follows behind it on the same connection. Without `hear`, nobody
        waits.
        """

    async def listen(
        self, address: Address, channel: str, deadline: float | None
    ) -> list[bytes] | None:
        """Sleep until messages come on the channel; None when it has just been subscribed to."""
        ...

    async def pause(self, deadline: float | None) -> None:
        """Sleep until a rouse."""

    def forget(self, address: Address) -> None:
        """Give up all connections to a node: its name may lead to another one now."""

    def post(self, request: bytes) -> None:
        """Send every node a request behind what was sent before, if that can be done at once."""

    def rouse(self) -> None:
        """End a `listen` or a `pause` now."""

    def reset(self) -> None:
        """Forget all connections: the process has forked."""

    async def close(self) -> None:
        """Close all connections."""
