"""Attaches claims to the connection of their client, before the engine claims or renews them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from lockfast.errors import EngineUnavailable, LockfastError
from lockfast.port import Ask, Engine, Standing
from lockfast.service.figures import Figures
from lockfast.service.replies import internal

Standings = Sequence[Standing | Exception | None]
Call = Callable[[Sequence[Ask]], Awaitable[Standings]]
OVERTAKEN = "the client has asked another replica meanwhile: ask again"


async def attached(
    engine: Engine, asks: Sequence[Ask], deadline: float, figures: Figures, call: Call
) -> Standings:
    """Attach those claims that end with their connection, and then make a call with all claims
    except those whose attachment has failed.
    """
    ending = [ask for ask in asks if ask.departs]
    if not ending:
        return await call(asks)
    results: Sequence[bool | Exception]
    try:
        # Only an engine that has this method gets such claims.
        attaching = engine.attach(ending, deadline)  # type: ignore[attr-defined]
        results = await figures.measured("attach", len(ending), attaching)
        if len(results) != len(ending):
            raise ValueError(f"{len(results)} answers to {len(ending)} attachments")
    except EngineUnavailable as error:
        results = [EngineUnavailable(error.message, sent=False)] * len(ending)
    except LockfastError as error:
        results = [error] * len(ending)
    except Exception as error:  # noqa: BLE001  # it is logged
        results = [internal(error)] * len(ending)
    failed = {
        id(ask): each if isinstance(each, Exception) else EngineUnavailable(OVERTAKEN, sent=False)
        for ask, each in zip(ending, results, strict=True)
        if each is not True
    }
    if not failed:
        return await call(asks)
    rest = [ask for ask in asks if id(ask) not in failed]
    found = iter(await call(rest) if rest else ())
    return [failed.get(id(ask)) or next(found) for ask in asks]
