"""Faults at the port: the engine behind it is the real one, and what fails is the way to it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self

from lockfast.errors import EngineUnavailable
from lockfast.guarantees import Guarantees
from lockfast.port import Ask, Engine, Page, Standing, Wake


class Shaky:
    """An engine whose requests a test can cut off, and whose replies it can lose."""

    _engine: Engine

    def __init__(self) -> None:
        """Begin without faults."""
        self.cut = False
        self.lost_replies = 0
        self.lost_records = 0
        self.held_claims = 0
        """How many copies of claims to hold up on their way."""
        self.held: list[Ask] = []
        self.before_renewed: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.before_claimed: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.before_records: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.after_claim: Callable[[], object] | None = None

    def to(self, engine: Engine) -> Self:
        """Lead to this engine."""
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
        """Claim, if the way is open."""
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
        """Claim several, if the way is open."""
        self._ask()
        standings = await self._engine.claim_all(asks, deadline)
        self._answer()
        return standings

    async def deliver(self, deadline: float) -> list[Standing | None]:
        """Let the copies arrive that were held up."""
        held, self.held = self.held, []
        return [await self._engine.claim(ask, deadline) for ask in held]

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Renew, if the way is open."""
        self._ask()
        standings = await self._engine.renew(asks, deadline)
        if self.before_renewed is not None:
            await self.before_renewed()
        return standings

    async def resign(self, asks: Sequence[Ask], deadline: float, *, doubt: bool) -> list[bool]:
        """Resign, if the way is open."""
        self._ask()
        removed = await self._engine.resign(asks, deadline, doubt=doubt)
        self._answer()
        return removed

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Abandon, if the way is open."""
        if not self.cut:
            self._engine.abandon(asks)

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Listen."""
        return await self._engine.listen(deadline)

    def rouse(self) -> None:
        """Rouse."""
        self._engine.rouse()

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Inspect, if the way is open."""
        self._ask()
        return await self._engine.inspect(names, cursor, exact=exact)

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        """Record, if the way is open."""
        self._ask()
        if self.lost_records:
            self.lost_records -= 1
            raise EngineUnavailable("the test has lost the record", sent=True)
        await self._engine.record(name, claim, record, deadline)

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Read, if the way is open."""
        self._ask()
        if self.before_records is not None:
            await self.before_records()
        return await self._engine.records(name, deadline)

    async def guarantees(self, deadline: float) -> Guarantees:
        """Ask."""
        return await self._engine.guarantees(deadline)

    def reset(self) -> None:
        """Reset."""
        self._engine.reset()

    async def close(self) -> None:
        """Close."""
        await self._engine.close()
