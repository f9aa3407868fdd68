"""Verification of a request's token: ask the engine whether it belongs to a holder."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any, Protocol

from lockfast.guards.http.door import Verify
from lockfast.guards.mark import Shown
from lockfast.primitives.lock import Holder


class Locks(Protocol):
    """A `Client` or an `AsyncClient`."""

    def lock(self, name: str, /) -> Any:  # noqa: ANN401  # blocking, or asyncio's
        """Return a lock."""


def held_in(client: Locks) -> Verify:
    """Return a function for `Door(verify=...)` that asks the engine for a holder with that token.

    Id and token must be those of a present holder, so a forged token raises no mark. This costs one
    round trip for each new holder.

    Args:
        client: An `AsyncClient` in an ASGI application, and a `Client` in a WSGI application.

    Returns:
        A function that takes the values of a token. It returns True if a present holder has that
        token. It raises `EngineError` if the engine cannot be reached.
    """

    def verify(at: Shown) -> bool | Awaitable[bool]:
        holders = client.lock(at.name).holders()
        return _awaited(holders, at) if inspect.isawaitable(holders) else _among(holders, at)

    return verify


async def _awaited(holders: Awaitable[list[Holder]], at: Shown) -> bool:
    return _among(await holders, at)


def _among(holders: list[Holder], at: Shown) -> bool:
    return any(
        (each.id, each.ticket) == (at.id, at.token) and (each.token is None) == at.shared
        for each in holders
    )
