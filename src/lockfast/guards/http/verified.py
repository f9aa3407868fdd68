"""Ask the engine whether somebody holds the token that a request shows."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any, Protocol

from lockfast.guards.http.door import Verify
from lockfast.guards.mark import Shown
from lockfast.primitives.lock import Holder


class Locks(Protocol):
    """A client, for threads or asyncio."""

    def lock(self, name: str, /) -> Any:  # noqa: ANN401  # blocking, or asyncio's
        """Describe a lock."""


def held_in(client: Locks) -> Verify:
    """Make the `verify` of a `Door`: the engine must have a holder with that id and that token.

    It costs one round trip for each new holder, and then a forged token raises no mark. Give an
    `AsyncClient` to an ASGI application, a `Client` to a WSGI one.
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
