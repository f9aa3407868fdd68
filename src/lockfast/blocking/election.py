"""The blocking elections that a `Client` returns. They run the shared coroutines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Self

from lockfast.blocking.facade import Lease
from lockfast.primitives.candidacy import CandidacyCore
from lockfast.primitives.election import ElectionCore, Leader, Observer
from lockfast.runtime.drive import blocking, drive


class Candidacy(CandidacyCore[Lease]):
    """A candidate that campaigns in a background thread, for as long as its `with` block lasts."""

    lease: Lease | None
    """The lease while this process leads, else None."""

    withdraw = blocking(CandidacyCore[Lease]._withdraw)

    def __enter__(self) -> Self:
        """Begin to campaign."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Withdraw the candidacy, and resign if it leads."""
        self.withdraw()


class Election(ElectionCore[Lease]):
    """A leader election, for threads."""

    __slots__ = ()

    campaign = blocking(ElectionCore[Lease]._campaign)
    leader = blocking(ElectionCore[Lease]._leader)

    def observe(self, every: float = 1.0) -> Iterator[Leader]:
        observer = Observer(self, self._session, every)  # here, so that a mistake raises at once
        return (drive(observer.following()) for _ in count())

    def run(
        self,
        on_gain: Callable[[Lease], object],
        on_lose: Callable[[], object],
        *,
        value: str = "",
    ) -> Candidacy:
        return Candidacy(self, self._session, on_gain, on_lose, value)
