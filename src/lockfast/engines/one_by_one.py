"""`claim_all` for engines that cannot make several claims in one round trip."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from lockfast.errors import EngineError, KindMismatch
from lockfast.port import Ask, Standing

Claim = Callable[[Ask, float], Awaitable[Standing | None]]


async def singly(
    claim: Claim, asks: Sequence[Ask], deadline: float
) -> list[Standing | Exception | None]:
    """Make the claims one after the other, and return a standing, None or an exception for each.

    If the engine fails or refuses one claim, the others are made all the same.
    """
    found: list[Standing | Exception | None] = []
    for ask in asks:
        try:
            found.append(await claim(ask, deadline))
        except (EngineError, KindMismatch) as error:
            found.append(error)
    return found
