"""What the engine asks of its transports, and what both of them share."""

from __future__ import annotations

from typing import Protocol

from lockfast.engines.postgres.link import Link, Row
from lockfast.errors import EngineUnavailable

IO = 5.0  # seconds after which an unanswered request is given up
IDLE = 10  # connections that are kept while nobody uses them


class Wire(Protocol):
    """A transport, in one colour."""

    offset: float | None
    """What to add to our clock for at most the server's; None before the first connection."""

    deaf: bool
    """Whether a pooler stands in between, which would swallow the notifications."""

    async def call(self, sql: bytes, deadline: float, *, heart: bool = False) -> list[Row]:
        """Run statements and give the rows of the last; on the heart's own connection or not."""
        ...

    async def listen(self, channel: str, deadline: float | None) -> list[bytes] | None:
        """Sleep until notifications come; None when they have just begun to flow, or cannot."""
        ...

    async def pause(self, deadline: float | None) -> None:
        """Sleep until a rouse."""

    def rouse(self) -> None:
        """End a `listen` or a `pause` now."""

    def reset(self) -> None:
        """Forget all connections: the process has forked."""

    async def close(self) -> None:
        """Close all connections."""


def late(link: Link) -> EngineUnavailable:
    """Say that no answer came in time."""
    return EngineUnavailable(f"PostgreSQL at {link.where}: no answer in time", sent=True)


def unsent(error: EngineUnavailable) -> EngineUnavailable:
    """Say the same of a connection that was not made: nothing can have happened."""
    return EngineUnavailable(f"no connection: {error}", sent=False)


def patience(deadline: float | None, now: float) -> float:
    """Give the deadline of a subscription: a heart that has work to do must not wait for it."""
    return now + (1.0 if deadline is None else min(max(deadline - now, 0.05), 1.0))
