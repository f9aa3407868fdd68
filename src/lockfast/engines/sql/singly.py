"""Resignations one by one, after the server has refused several together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.port import Ask
from lockfast.runtime.base import Clock

Resign = Callable[[Sequence[Ask]], Awaitable[list[bool]]]


async def resigned(
    resign: Resign, asks: Sequence[Ask], deadline: float, now: Clock
) -> list[bool | Exception]:
    """Resign claims in one transaction. If the server refuses that, resign them one by one, because
    one of them is at fault, and the others may be those of strangers.

    Raise an error if that holds for all of them: then nothing has happened, or nobody knows what.
    """
    try:
        return [*await resign(asks)]
    except EngineRefused as error:
        if len(asks) == 1:
            raise
        refused = error
    found: list[bool | Exception] = []
    missing: EngineUnavailable | None = None
    for ask in asks:
        if missing is not None:  # each of them would wait for the server in turn
            found.append(EngineUnavailable(missing.message, sent=False))
        elif now() >= deadline:
            # Not the refusal: it may be for another claim, and its caller would not try again.
            late = f"no time was left to resign the claim by itself after this: {refused.message}"
            found.append(EngineUnavailable(late, sent=False))
        else:
            try:
                found += await resign([ask])
            except EngineError as error:
                found.append(error)
                missing = error if isinstance(error, EngineUnavailable) else None
    return found
