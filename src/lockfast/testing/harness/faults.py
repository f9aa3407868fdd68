"""Faults at the port: an engine that passes calls on to a real one, and loses some on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Self

from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.guarantees import Guarantees
from lockfast.port import EVERYONE, Ask, Engine, Page, Standing, Wake
from lockfast.runtime import base


class Shaky:
    """An engine that passes calls on to another. A test can cut its requests and lose replies."""

    _engine: Engine

    def __init__(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Start without faults. `sleep`: how to let time pass in the mode of the engine."""
        self._sleep = sleep
        self._missed = False
        self.cut = False
        """Whether requests fail at once."""
        self.silent = False
        """Whether requests vanish: each fails at its deadline, and a listing at once."""
        self.mute = False
        """Whether requests arrive and their replies vanish: each fails at its deadline."""
        self.unrenewed = False
        """Whether renewals fail at once, and nothing else does."""
        self.refusal: EngineRefused | None = None
        """What the engine answers to resignations, instead of obeying."""
        self.resigned: list[str] = []
        """The ids of all claims that the engine was asked to resign, in order."""
        self.lost_replies = 0
        self.lost_records = 0
        self.held_claims = 0
        """How many of the next claims to hold back, until `deliver` sends them."""
        self.held: list[Ask] = []
        self.before_renewed: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.before_claimed: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.before_resign: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.before_records: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.after_claim: Callable[[], object] | None = None

    def to(self, engine: Engine) -> Self:
        """Pass calls on to this engine, and have its name if it has one. Return self."""
        self._engine = engine
        if hasattr(engine, "client"):
            self.client = engine.client
        return self

    def reconnect(self) -> None:
        """Let the heart see what it sees after each new connection: pushes may be missing."""
        self._missed = True
        self._engine.rouse()

    async def _ask(self, deadline: float | None = None) -> None:
        if self.silent:
            await self._vanish(deadline)
        if self.cut:
            raise EngineUnavailable("cut off by the test", sent=True)

    async def _answer(self, deadline: float) -> None:
        if self.lost_replies:
            self.lost_replies -= 1
            raise EngineUnavailable("the test has lost the reply", sent=True)
        if self.mute:
            await self._vanish(deadline)

    async def _vanish(self, deadline: float | None) -> None:
        """Fail at the deadline; or when the way is open again, as a connection is reset then."""
        while deadline is not None and (self.silent or self.mute) and base.now() < deadline:
            await self._sleep(min(max(deadline - base.now(), 0.0), 0.02))
        raise EngineUnavailable("no answer: the test has silenced the way", sent=True)

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Claim, unless the test has cut the way or holds the claim back."""
        await self._ask(deadline)
        if self.held_claims:
            self.held_claims -= 1
            self.held.append(ask)
            raise EngineUnavailable("held up by the test", sent=True)
        standing = await self._engine.claim(ask, deadline)
        if self.after_claim is not None:
            self.after_claim()
        if self.before_claimed is not None:
            await self.before_claimed()
        await self._answer(deadline)
        return standing

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Claim several, unless the test has cut the way."""
        await self._ask(deadline)
        standings = await self._engine.claim_all(asks, deadline)
        await self._answer(deadline)
        return standings

    async def deliver(self, deadline: float) -> list[Standing | None]:
        """Send the claims that were held back, and return the answers."""
        held, self.held = self.held, []
        return [await self._engine.claim(ask, deadline) for ask in held]

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Renew, unless the test has cut the way. `lost_replies` counts none of these."""
        await self._ask(deadline)
        if self.unrenewed:
            raise EngineUnavailable("the test has lost the renewal", sent=True)
        standings = await self._engine.renew(asks, deadline)
        if self.before_renewed is not None:
            await self.before_renewed()
        if self.mute:
            await self._vanish(deadline)
        return standings

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        """Resign, unless the test has cut the way."""
        await self._ask(deadline)
        self.resigned += [ask.id for ask in asks]
        if self.before_resign is not None:
            await self.before_resign()
        if self.refusal is not None:
            raise self.refusal
        removed = await self._engine.resign(asks, deadline, doubt=doubt)
        await self._answer(deadline)
        return removed

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Abandon, unless the test has cut the way."""
        self.resigned += [ask.id for ask in asks]
        if not (self.cut or self.silent or self.refusal):
            self._engine.abandon(asks)

    def hear(self, client: str, *, on: bool) -> None:
        """Hear."""
        self._engine.hear(client, on=on)

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Listen."""
        wakes = await self._engine.listen(deadline)
        if self._missed:
            self._missed = False
            return [EVERYONE, *wakes]
        return wakes

    def rouse(self) -> None:
        """Rouse the listener."""
        self._engine.rouse()

    def time(self, name: str) -> float | None:
        """Return the time of the engine's server."""
        return self._engine.time(name)

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Inspect, unless the test has cut the way."""
        await self._ask()
        return await self._engine.inspect(names, cursor, exact=exact)

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        """Record, unless the test has cut the way."""
        await self._ask(deadline)
        if self.lost_records:
            self.lost_records -= 1
            raise EngineUnavailable("the test has lost the record", sent=True)
        await self._engine.record(name, claim, record, deadline)

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Read, unless the test has cut the way."""
        await self._ask(deadline)
        if self.before_records is not None:
            await self.before_records()
        return await self._engine.records(name, deadline)

    async def guarantees(self, deadline: float) -> Guarantees:
        """Return the guarantees of the engine."""
        return await self._engine.guarantees(deadline)

    def reset(self) -> None:
        """Reset the engine after a fork."""
        self._engine.reset()

    async def close(self) -> None:
        """Close the engine."""
        await self._engine.close()
