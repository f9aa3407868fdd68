"""The interface of the transports: send to all nodes, and get answers as they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import hiredis

from lockfast.engines.redis.channels import Change
from lockfast.engines.redis.transport import Address, Login
from lockfast.engines.redlock import messages
from lockfast.errors import EngineError

Answer = list[Any] | EngineError
Hear = Callable[[int, Answer], float]
"""Takes a node's index and answer. Returns how many more seconds to wait for others: 0 for none."""


def ignored(node: int, reply: Any) -> None:
    """Ignore a late reply."""
    del node, reply


AGAIN = (0.1, 2.0)  # seconds between attempts to reach a node that is down: the first, the longest


@dataclass(frozen=True, slots=True)
class Introduction(Login):
    """A login that also checks whether the node has restarted since it became a member."""

    rights: ClassVar[str] = messages.RIGHTS

    def greeting(self, address: Address) -> list[bytes]:
        """Return the packed commands of a login. A node that restarted is then no member."""
        *hello, time = Login.greeting(self, address)
        return [*hello, messages.enter(), time]


class Transport(Protocol):
    """A client's connections to all nodes, for threads or for asyncio."""

    nodes: Sequence[Address]
    late: Callable[[int, Any], object]
    """Called with a node's index and a reply that arrived when nobody waited for it any more."""
    lost: Callable[[int], object]
    """Called when a node's connection ended, since the last requests may not have arrived."""
    owing: Callable[[], object]
    """Called when `scatter` has returned before every node had answered, and nothing will notice if
    the connection ends now. `catch_up` must then be called. Not called again before that."""

    async def scatter(
        self,
        requests: Sequence[bytes | None],
        count: int,
        deadline: float,
        hear: Hear | None,
        *,
        heart: bool = False,
    ) -> None:
        """Send each node its request, and pass its `count` replies to `hear`, until that returns 0
        or the deadline passes. A node whose request is None is left out.

        All requests are written before the first reply is read. A node that has not answered at the
        end may have received its request, and a later request follows on the same connection.
        Without `hear`, return without waiting for replies.
        """

    async def ear(self, address: Address, deadline: float) -> Any:
        """Return the heart's connection to a node, on which messages arrive. Connect if needed.
        A new connection has subscribed to nothing.
        """
        ...

    async def change(
        self, ear: Any, changes: Sequence[Change], deadline: float
    ) -> list[hiredis.ReplyError | None]:
        """Send commands to an ear together. Return for each None, or the error that refused it."""
        ...

    async def listen(self, address: Address, deadline: float | None) -> list[bytes]:
        """Wait for messages on the ear of a node, or for `rouse`."""
        ...

    async def pause(self, deadline: float | None) -> None:
        """Wait until `rouse` is called or the deadline passes."""

    def catch_up(self) -> bool:
        """Read late replies on connections that nobody uses. Call `lost` for each that has ended,
        or has been silent for long. Return whether replies are still due.
        """
        ...

    def forget(self, address: Address) -> None:
        """Stop using all connections to a node, since its name may lead to another server now."""

    def post(self, request: bytes) -> None:
        """Send every node a request after all earlier ones, if that needs no waiting."""

    def rouse(self) -> None:
        """Make `listen` or `pause` return now."""

    def reset(self) -> None:
        """Forget all connections, because the process has forked."""

    async def close(self) -> None:
        """Close all connections."""
