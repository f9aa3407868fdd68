"""A client's way to its claims by one of several engines, as a client of the service has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lockfast.port import Ask, Engine, Standing, Wake
from lockfast.testing.harness.faults import Shaky


def again(ask: Ask, standing: Standing | None, epoch: int) -> Ask:
    """Return a claim as another replica reads it from the client's message."""
    copy = Ask(ask.id, ask.shape, ask.queue, ask.not_after, ask.payload)
    copy.epoch, copy.fixed = epoch, ask.fixed
    copy.ticket, copy.granted = ask.ticket, ask.granted
    if standing is not None:
        copy.ticket, copy.granted = standing.ticket, standing.granted
    return copy


class Roaming(Shaky):
    """An engine that passes calls on to one of two replicas, and sends a new copy of each ask."""

    def __init__(self, *replicas: Engine) -> None:
        """Connect to the first replica."""
        super().__init__()
        self._replicas = replicas
        self._epochs = [1] * len(replicas)
        """The number of the client's latest connection to each."""
        self._here = 0
        self._asked = 0
        """Which replica the next request goes to: not the one where the client is if it is late."""
        self.to(replicas[0])

    def _ask_at(self, place: int) -> None:
        self._asked = place % len(self._replicas)
        self.to(self._replicas[self._asked])

    def move(self) -> None:
        """Connect to the next replica."""
        latest = max(self._epochs)
        self._ask_at(self._here + 1)
        self._here = self._asked
        self._epochs[self._here] = latest + 1

    @contextmanager
    def late(self) -> Iterator[None]:
        """Send by an earlier connection: what lay in a replica's buffer comes to the server."""
        self._ask_at(self._here - 1)
        try:
            yield
        finally:
            self._ask_at(self._here)

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Listen where the client is."""
        return await self._replicas[self._here].listen(deadline)

    def _copies(self, asks: Sequence[Ask]) -> list[Ask]:
        return [again(ask, None, self._epochs[self._asked]) for ask in asks]

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Claim, and read the reply as a client does."""
        (copy,) = self._copies([ask])
        standing = await super().claim(copy, deadline)
        _read([ask], [standing])
        return standing

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Claim several, and read the reply as a client does."""
        standings = await super().claim_all(self._copies(asks), deadline)
        _read(asks, standings)
        return standings

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Renew, and read the reply as a client does."""
        standings = await super().renew(self._copies(asks), deadline)
        _read(asks, standings)
        return standings

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        """Resign."""
        return await super().resign(self._copies(asks), deadline, doubt=doubt)


def _read(asks: Sequence[Ask], standings: Sequence[Standing | Exception | None]) -> None:
    for ask, standing in zip(asks, standings, strict=True):
        if isinstance(standing, Standing) and standing.ticket:
            ask.ticket, ask.granted = standing.ticket, standing.granted or ask.granted
