"""One by one: several claims on an engine that cannot take them in one round trip."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from lockfast.errors import CapacityMismatch, EngineError
from lockfast.port import Ask, Standing

Claim = Callable[[Ask, float], Awaitable[Standing | None]]


async def singly(
    claim: Claim, asks: Sequence[Ask], deadline: float
) -> list[Standing | Exception | None]:
    """Claim each. One that fails alone does not keep the others from being claimed."""
    found: list[Standing | Exception | None] = []
    for ask in asks:
        try:
            found.append(await claim(ask, deadline))
        except (EngineError, CapacityMismatch) as error:
            found.append(error)
    return found
