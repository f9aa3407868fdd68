"""The SQLite engine: implements the port with transactions on a file of this host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from lockfast.engines.sqlite import attachments, break_records, guarantees, inspection
from lockfast.engines.sqlite.claims import Claimed, Claims
from lockfast.engines.sqlite.clock import UNITS
from lockfast.engines.sqlite.transaction import Transaction
from lockfast.engines.sqlite.transport import T, Transport
from lockfast.guarantees import Guarantees
from lockfast.port import Ask, Engine, Page, Standing, Wake
from lockfast.runtime.base import Clock

IO = 5.0  # seconds after which `inspect` gives up
ATTEMPT = 1.0  # seconds that a claim that does not queue waits for other writers


class SqliteEngine:
    """The engine of one client on a SQLite database."""

    stand_in: Callable[[], Engine]
    """Makes a blocking engine for the same URL, which can renew this engine's claims, because only
    the database knows which claims live. `opener` sets it for asyncio."""

    def __init__(self, transport: Transport, claims: Claims, clock: Clock) -> None:
        """Open nothing yet."""
        self._transport = transport
        self._store = transport.store
        self._listener = transport.listener
        self._claims = claims
        self._now = clock

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Append a claim and report its standing, in one transaction."""
        deadline = min(deadline, _patience(ask))
        found = await self._transport.run(partial(self._claim, ask, deadline), deadline)
        if isinstance(found, Exception):
            raise found
        return found

    def _claim(self, ask: Ask, deadline: float) -> Claimed:
        """Make one claim, and note whether it waits. This runs where the jobs run."""
        found = self._store.run(partial(self._claims.claim, ask), deadline)
        self._listener.answered(ask, found)
        return found

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Append several claims in one transaction."""
        if not asks:
            return []
        deadline = min(deadline, *map(_patience, asks))

        def work(transaction: Transaction) -> list[Claimed]:
            return [self._claims.claim(ask, transaction) for ask in asks]

        return await self._transport.run(partial(self._answered, work, asks, deadline), deadline)

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend claims in one transaction."""
        if not asks:
            return []

        def work(transaction: Transaction) -> list[Claimed]:
            return [*self._claims.renew(transaction, asks)]

        job = partial(self._answered, work, asks, deadline, urgent=True)
        return await self._transport.run(job, deadline, urgent=True)

    def _answered(
        self,
        work: Callable[[Transaction], list[Claimed]],
        asks: Sequence[Ask],
        deadline: float,
        *,
        urgent: bool = False,
    ) -> list[Standing | Exception | None]:
        """Run claims or renewals, and note which of them wait. This runs where the jobs run."""
        found = self._store.run(work, deadline, urgent=urgent)
        for ask, each in zip(asks, found, strict=True):
            self._listener.answered(ask, each)
        return [*found]

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        """Remove claims for good, in one transaction, and grant the waiters that now fit.

        If a signal handler or a finalizer has interrupted a transaction, the claims are removed
        right after it.
        """
        if not asks:
            return []

        def work(transaction: Transaction) -> list[bool | Exception]:
            return [*self._claims.resign(transaction, asks, doubt=doubt)]

        for ask in asks:
            self._listener.resigned(ask)
        if self._store.put_off(work):
            return [True for _ in asks]
        job = partial(self._store.run, work, deadline, urgent=True)
        return await self._transport.run(job, deadline)  # after the claims that came earlier

    async def attach(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        """Store which connection of the service the claims belong to, in one transaction."""

        def work(transaction: Transaction) -> list[bool | Exception]:
            return [*attachments.attach(transaction, asks)]

        return await self._run(work, deadline)

    async def depart(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        """Remove the claims that still belong to their connection, in one transaction."""

        def work(transaction: Transaction) -> list[bool | Exception]:
            return [*attachments.depart(transaction, self._claims, asks)]

        return await self._run(work, deadline)

    async def _run(
        self, work: Callable[[Transaction], T], deadline: float, *, writes: bool = True
    ) -> T:
        job = partial(self._store.run, work, deadline, writes=writes)
        return await self._transport.run(job, deadline)

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Do nothing: the heart resigns the claims afterwards."""

    def hear(self, client: str, *, on: bool) -> None:
        """Start or stop receiving the wakes of a client."""
        self._listener.hear(client, on=on)

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait for grants. While a claim waits, look for them every few milliseconds."""
        return await self._transport.listen(deadline)

    def rouse(self) -> None:
        """Make `listen` return now."""
        self._listener.rouse()

    def time(self, name: str) -> float:  # noqa: ARG002  # one clock for all names
        """Return the time of the host's clock: the seconds since it was started."""
        return self._store.clock.micros() / UNITS

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Return the claims on one name, or the next five hundred on names with a prefix."""
        place = inspection.behind(names, cursor)

        def work(transaction: Transaction) -> Page:
            if exact:
                return inspection.one(transaction, names)
            return inspection.page(transaction, names, place)

        return await self._run(work, self._now() + IO, writes=False)

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        """Keep the record of a break."""
        await self._run(lambda each: break_records.keep(each, name, claim, record), deadline)

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Return the records of a name, the newest first."""
        return await self._run(lambda each: break_records.kept(each, name), deadline, writes=False)

    async def guarantees(self, deadline: float) -> Guarantees:
        """Open the database, so that it is checked, and return what it promises."""
        file = self._store.file
        return await self._run(lambda _: guarantees.guarantees(file), deadline, writes=False)

    def reset(self) -> None:
        """Forget the connection in a forked child."""
        self._transport.reset()

    async def close(self) -> None:
        """Close the connection."""
        self._listener.leave()
        await self._transport.close()


def _patience(ask: Ask) -> float:
    """Return until when a claim waits for other writers, at the latest.

    `acquire(timeout=0)` has a deadline of up to ten seconds, for the round trips of other engines.
    Here only a writer that does not end costs so much time. The limit counts from the acquisition,
    so that a second copy of the claim does not double it.
    """
    return inf if ask.queue else ask.not_after - ask.shape.wait_ttl + ATTEMPT
