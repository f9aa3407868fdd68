"""Faults at the port: an engine that passes calls on to a real one, and loses some on the way."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self

from lockfast.errors import EngineUnavailable
from lockfast.guarantees import Guarantees
from lockfast.port import Ask, Engine, Page, Standing, Wake


class Shaky:
    """An engine that passes calls on to another. A test can cut its requests and lose replies."""

    _engine: Engine

    def __init__(self) -> None:
        """Start without faults."""
        self.cut = False
        self.lost_replies = 0
        self.lost_records = 0
        self.held_claims = 0
        """How many of the next claims to hold back, until `deliver` sends them."""
        self.held: list[Ask] = []
        self.before_renewed: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.before_claimed: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.before_records: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.after_claim: Callable[[], object] | None = None

    def to(self, engine: Engine) -> Self:
        """Pass calls on to this engine. Return self."""
        self._engine = engine
        return self

    def _ask(self) -> None:
        if self.cut:
            raise EngineUnavailable("cut off by the test", sent=True)

    def _answer(self) -> None:
        if self.lost_replies:
            self.lost_replies -= 1
            raise EngineUnavailable("the test has lost the reply", sent=True)

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Claim, unless the test has cut the way or holds the claim back."""
        self._ask()
        if self.held_claims:
            self.held_claims -= 1
            self.held.append(ask)
            raise EngineUnavailable("held up by the test", sent=True)
        standing = await self._engine.claim(ask, deadline)
        if self.after_claim is not None:
            self.after_claim()
        if self.before_claimed is not None:
            await self.before_claimed()
        self._answer()
        return standing

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Claim several, unless the test has cut the way."""
        self._ask()
        standings = await self._engine.claim_all(asks, deadline)
        self._answer()
        return standings

    async def deliver(self, deadline: float) -> list[Standing | None]:
        """Send the claims that were held back, and return the answers."""
        held, self.held = self.held, []
        return [await self._engine.claim(ask, deadline) for ask in held]

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Renew, unless the test has cut the way."""
        self._ask()
        standings = await self._engine.renew(asks, deadline)
        if self.before_renewed is not None:
            await self.before_renewed()
        return standings

    async def resign(self, asks: Sequence[Ask], deadline: float, *, doubt: bool) -> list[bool]:
        """Resign, unless the test has cut the way."""
        self._ask()
        removed = await self._engine.resign(asks, deadline, doubt=doubt)
        self._answer()
        return removed

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Abandon, unless the test has cut the way."""
        if not self.cut:
            self._engine.abandon(asks)

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Listen. The test cannot cut this."""
        return await self._engine.listen(deadline)

    def rouse(self) -> None:
        """Rouse the listener."""
        self._engine.rouse()

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Inspect, unless the test has cut the way."""
        self._ask()
        return await self._engine.inspect(names, cursor, exact=exact)

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        """Record a break, unless the test has cut the way or loses the record."""
        self._ask()
        if self.lost_records:
            self.lost_records -= 1
            raise EngineUnavailable("the test has lost the record", sent=True)
        await self._engine.record(name, claim, record, deadline)

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Read the records of breaks, unless the test has cut the way."""
        self._ask()
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
