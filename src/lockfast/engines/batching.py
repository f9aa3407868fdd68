"""An engine around an engine: sends requests of several callers together.

One round trip, or one commit, can carry many claims. While a call is under way, the requests that
arrive wait in a `Lane`, and go out together when the call returns. The attribute `batch` of an
engine says how many claims it wants in one call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from lockfast.engines.lane import Lane
from lockfast.port import Ask, Engine, Standing
from lockfast.runtime.base import Runtime

R = TypeVar("R")
AT_ONCE = 2  # calls of one kind under way: while the server works on one, the next one travels


class Batching:
    """An engine that batches the requests to another engine."""

    def __init__(self, engine: Engine, runtime: Runtime, size: int) -> None:
        """Connect to nothing. `size`: how many claims one call carries at most."""
        self.inner = engine
        kind = partial(Lane[Standing | Exception | None], runtime=runtime, size=size)
        self._claims = kind(self._claim_all, _name, at_once=AT_ONCE)
        self._renewals = kind(engine.renew, _id, at_once=AT_ONCE)
        # A lane for each: whether a copy is in doubt is a fact about one claim, and one that is not
        # in doubt must not speak for another.
        self._resignations = {
            doubt: Lane(partial(engine.resign, doubt=doubt), _id, runtime, size, AT_ONCE)
            for doubt in (False, True)
        }
        self.abandon = engine.abandon
        self.listen = engine.listen
        self.rouse = engine.rouse
        self.inspect = engine.inspect
        self.record = engine.record
        self.records = engine.records
        self.guarantees = engine.guarantees
        self.reset = engine.reset
        self.close = engine.close
        if hasattr(engine, "stand_in"):
            self.stand_in = engine.stand_in

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Make a claim, together with others if calls are under way."""
        lane = self._claims
        call = None if ask.alone else lane.enter()
        if call is not None:
            try:
                return await self.inner.claim(ask, deadline)
            finally:
                lane.leave(call)
        replies = None if ask.alone else await lane.wait((ask,), deadline)
        if replies is None:
            return await self.inner.claim(ask, deadline)
        found = replies[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Make several claims, together with others if calls are under way."""
        return await _through(self._claims, self.inner.claim_all, asks, deadline)

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Renew claims, together with others if calls are under way."""
        return await _through(self._renewals, self.inner.renew, asks, deadline)

    async def resign(self, asks: Sequence[Ask], deadline: float, *, doubt: bool) -> list[bool]:
        """Resign claims, together with others if calls are under way."""
        send = partial(self.inner.resign, doubt=doubt)
        return await _through(self._resignations[doubt], send, asks, deadline)

    async def _claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Send claims of several callers. None may be sent after its own `not_after`."""
        latest = min(ask.not_after for ask in asks)
        return await self.inner.claim_all(asks, min(deadline, latest))


async def _through(
    lane: Lane[R],
    send: Callable[[Sequence[Ask], float], Awaitable[list[R]]],
    asks: Sequence[Ask],
    deadline: float,
) -> list[R]:
    """Send a request by itself if the lane is free, or else together with others."""
    alone = any(ask.alone for ask in asks)
    call = None if alone else lane.enter()
    if call is not None:
        try:
            return await send(asks, deadline)
        finally:
            lane.leave(call)
    replies = None if alone else await lane.wait(asks, deadline)
    return await send(asks, deadline) if replies is None else list(replies)


def _name(ask: Ask) -> str:
    return ask.shape.name


def _id(ask: Ask) -> str:
    return ask.id
