"""An engine around an engine: sends requests of several callers together.

One round trip, or one commit, can carry many claims. While a call is under way, the requests that
arrive wait in a `Lane`, and go out together when the call returns. The attribute `batch` of an
engine says how many claims it wants in one call.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from lockfast.engines.lane import Lane, Leading
from lockfast.port import Ask, Engine, Standing
from lockfast.runtime.base import Runtime

AT_ONCE = 2  # calls of one kind under way: while the server works on one, the next one travels


class Batching:
    """An engine that batches the requests to another engine."""

    def __init__(self, engine: Engine, runtime: Runtime, size: int) -> None:
        """Connect to nothing. `size`: how many claims one call carries at most."""
        self.inner = engine
        leading: Leading[Any] = {}
        lane = partial(Lane, runtime=runtime, size=size, at_once=AT_ONCE, leading=leading)
        self._claims: Lane[Standing | Exception | None] = lane(engine.claim_all, _name)
        # A lane for each: whether a copy is in doubt is a fact about one claim, and one that is not
        # in doubt must not speak for another.
        self._resignations: dict[bool, Lane[bool | Exception]] = {
            doubt: lane(partial(engine.resign, doubt=doubt), _id) for doubt in (False, True)
        }
        self.claim_all = self._claims.through
        self.renew = engine.renew  # the heart is the only caller
        self.abandon = engine.abandon
        self.hear = engine.hear
        self.listen = engine.listen
        self.rouse = engine.rouse
        self.time = engine.time
        self.inspect = engine.inspect
        self.record = engine.record
        self.records = engine.records
        self.guarantees = engine.guarantees
        self.reset = engine.reset
        self.close = engine.close
        if hasattr(engine, "stand_in"):
            self.stand_in = engine.stand_in
        if hasattr(engine, "sign"):
            self.sign = engine.sign
        if hasattr(engine, "client"):
            self.client = engine.client
        if hasattr(engine, "on_disconnect"):
            self.on_disconnect = engine.on_disconnect

    @property
    def busy(self) -> bool:
        """Whether the engine has said that it is overloaded."""
        return getattr(self.inner, "busy", False)

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Make a claim, together with others if calls are under way."""
        lane = self._claims
        call = lane.enter()
        if call is not None:
            try:
                return await self.inner.claim(ask, deadline)
            finally:
                lane.leave(call)
        replies = await lane.wait((ask,), deadline)
        if replies is None:
            return await self.inner.claim(ask, deadline)
        found = replies[0]
        if isinstance(found, Exception):
            raise found
        return found

    def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> Coroutine[Any, Any, list[bool | Exception]]:
        """Resign claims, together with others if calls are under way."""
        return self._resignations[doubt].through(asks, deadline)


def _name(ask: Ask) -> str:
    return ask.shape.name


def _id(ask: Ask) -> str:
    return ask.id
