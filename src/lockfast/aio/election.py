"""The asyncio elections that an `AsyncClient` returns. They await the shared coroutines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from lockfast.aio.body import acquiring
from lockfast.aio.facade import AsyncLease
from lockfast.primitives.candidacy import CandidacyCore
from lockfast.primitives.election import ElectionCore, Observer


class AsyncCandidacy(CandidacyCore[AsyncLease]):
    """A candidate that campaigns in a background task, as long as its `async with` block lasts."""

    lease: AsyncLease | None
    """The lease while this process leads, else None."""

    withdraw = CandidacyCore[AsyncLease]._withdraw

    async def __aenter__(self) -> Self:
        """Begin to campaign."""
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Withdraw the candidacy, and resign if it leads."""
        await self.withdraw()


class AsyncObserver(Observer):
    """The asynchronous iterator that `AsyncElection.observe` returns."""

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    __anext__ = Observer.following


class AsyncElection(ElectionCore[AsyncLease]):
    """A leader election, for asyncio."""

    __slots__ = ()

    campaign = acquiring(ElectionCore[AsyncLease]._campaign)
    leader = ElectionCore[AsyncLease]._leader

    def observe(self, every: float = 1.0) -> AsyncObserver:
        return AsyncObserver(self, self._session, every)

    def run(
        self,
        on_gain: Callable[[AsyncLease], object],
        on_lose: Callable[[], object],
        *,
        value: str = "",
    ) -> AsyncCandidacy:
        return AsyncCandidacy(self, self._session, on_gain, on_lose, value)
