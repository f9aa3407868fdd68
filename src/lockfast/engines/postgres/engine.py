"""The PostgreSQL engine: implements the port with SQL functions and a transport."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from lockfast.engines.postgres import guarantees, messages, replies
from lockfast.engines.postgres.connection import Row
from lockfast.engines.postgres.pushes import Pushes
from lockfast.engines.postgres.transport import UNITS, Transport
from lockfast.engines.pushes import CALM, before
from lockfast.engines.server_clock import ServerClock
from lockfast.engines.sql import singly
from lockfast.errors import EngineError
from lockfast.guarantees import Guarantees
from lockfast.port import CLIENT, EVERYONE, TOMB_MARGIN, Ask, Engine, Page, Standing, Wake
from lockfast.runtime.base import Clock

GLANCE = 0.5  # seconds between reads of the waiters' standings, where no notifications arrive
BATCH = 64  # claims in one transaction
MARGIN = int(TOMB_MARGIN * UNITS)


class PostgresEngine:
    """The engine of one client on a PostgreSQL database."""

    batch = BATCH
    stand_in: Callable[[], Engine]
    """Makes a blocking engine for the same URL, which can renew this engine's claims, because only
    the server knows which claims live. `opener` sets it for asyncio."""

    def __init__(self, transport: Transport, clock: Clock, base: int) -> None:
        """Connect to nothing yet. `base` is added to the clock in new tickets."""
        self._transport = transport
        self._now = clock
        self._base = base
        self._pushes = Pushes()
        self._waiting = 0.0  # the time until which a claim of ours may wait

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Append a claim and report its standing, in one round trip."""
        clock = await self._clock(deadline)
        sql = messages.claim(ask, clock.latest(ask), self._base, self._pushes.word(ask.id))
        micros, found = await self._transport.call(sql, deadline, partial(replies.claimed, ask=ask))
        self._claimed(micros, found, ask)
        if isinstance(found, Exception):
            raise found
        return found

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Append several claims: one call, one transaction."""
        if not asks:
            return []
        clock = await self._clock(deadline)
        lates = [clock.latest(ask) for ask in asks]
        words = [self._pushes.word(ask.id) for ask in asks]
        sql = messages.claim_all(asks, lates, self._base, words)
        answers = await self._transport.call(sql, deadline, partial(replies.claimed_all, asks=asks))
        for ask, (micros, found) in zip(asks, answers, strict=True):
            self._claimed(micros, found, ask)
        return [found for _, found in answers]

    def _claimed(self, micros: int, found: Standing | Exception | None, ask: Ask) -> None:
        if found is None:
            # The id is dead, or the server's clock was moved. Note the clock for the next id.
            self._transport.clock = ServerClock(micros, self._now(), UNITS)
        elif isinstance(found, Standing) and found.ticket and not found.granted:
            self._wait(ask)
            if self._transport.deaf:
                self._transport.bell.ring()

    def _wait(self, ask: Ask) -> None:
        self._waiting = max(self._waiting, self._now() + ask.shape.wait_ttl)

    async def _clock(self, deadline: float) -> ServerClock:
        """Return the server's clock. Connect first if it is not known yet."""
        if self._transport.clock is None:
            await self._transport.call(b"SELECT 1", deadline, len)
        assert self._transport.clock is not None  # noqa: S101  # connecting sets it
        return self._transport.clock

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend claims: one call, one transaction."""
        if not asks:
            return []
        read = partial(replies.renewed, asks=asks)
        answers = await self._transport.call(messages.renew(asks), deadline, read, heart=True)
        received = self._now()
        for ask, (micros, standing) in zip(asks, answers, strict=True):
            self._transport.clock = ServerClock(micros, received, UNITS)
            if isinstance(standing, Standing) and not standing.granted:
                self._wait(ask)
        return [standing for _, standing in answers]

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        """Remove claims for good, in one transaction. Then notify the waiters that it lets in."""
        resign = partial(self._resign, deadline=deadline, doubt=doubt)
        return await singly.resigned(resign, asks, deadline, self._now) if asks else []

    async def _resign(self, asks: Sequence[Ask], *, deadline: float, doubt: bool) -> list[bool]:
        untils = None
        if doubt:
            clock = await self._clock(deadline)
            untils = [clock.last(ask) + MARGIN for ask in asks]
        return await self._removed(messages.resign(asks, untils), asks, deadline)

    async def _removed(self, sql: bytes, asks: Sequence[Ask], deadline: float) -> list[bool]:
        """Run a statement that removes claims. Then notify the waiters that it lets in."""
        read = partial(replies.resigned, asks=asks)
        removed, notes = await self._transport.call(sql, deadline, read)
        if notes:
            with suppress(EngineError):  # the claims are removed all the same
                await self._transport.call(messages.tell(notes), deadline, len)
        return removed

    async def attach(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        """Store which connection of the service the claims belong to: one call, one transaction."""
        read = partial(replies.attached, asks=asks)
        return await self._transport.call(messages.attach(asks), deadline, read)

    async def depart(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        """Remove the claims that still belong to their connection, in one transaction."""
        depart = partial(self._depart, deadline=deadline)
        return await singly.resigned(depart, asks, deadline, self._now)

    async def _depart(self, asks: Sequence[Ask], *, deadline: float) -> list[bool]:
        clock = await self._clock(deadline)
        untils = [clock.last(ask) + MARGIN for ask in asks]
        return await self._removed(messages.depart(asks, untils), asks, deadline)

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Do nothing. No statement can follow a claim under way, so the heart resigns it later."""

    def hear(self, client: str, *, on: bool) -> None:
        """Start or stop receiving the wakes of a client. `listen` subscribes."""
        self._transport.hearing.hear(client, on=on)
        self._transport.bell.ring()

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait for notifications on the heart's connection. Connect again if it was lost.

        No notifications come through a pooler. There, while a claim of ours waits, return
        `EVERYONE` every half second.
        """
        transport = self._transport
        try:
            if not (transport.hearing or transport.hearing.changed):
                await transport.bell.wait(deadline)
                return []
            if transport.deaf and self._waiting > self._now():
                soon = self._now() + GLANCE
                await transport.bell.wait(before(deadline, soon))
                return [EVERYONE] if self._now() >= soon else []
            told = await transport.subscribe(deadline)
            # Notifications are read in any case: clients may come without a pause.
            until = self._now() if told or transport.hearing.changed else deadline
            notes = await transport.notified(until)
        except EngineError:
            await transport.bell.wait(before(deadline, self._now() + CALM))
            return []
        wakes = self._pushes.read(notes)
        return told + [wake for wake in wakes if wake.id[:CLIENT] in transport.hearing]

    def rouse(self) -> None:
        """Make `listen` return now."""
        self._transport.bell.ring()

    def time(self, name: str) -> float | None:  # noqa: ARG002  # one server has all names
        """Return the time of the server's clock."""
        clock = self._transport.clock
        return None if clock is None else clock.seconds(self._now())

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Return the claims on one name, or the next five hundred on names with a prefix."""
        deadline = self._now() + 5.0
        if exact:
            found = await self._transport.call(messages.show_one(names), deadline, replies.entries)
            return Page(found, None)
        sql = messages.show_page(names, cursor)
        return await self._transport.call(sql, deadline, replies.page)

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        """Keep the record of a break: one call, one transaction."""
        await self._transport.call(messages.record(name, claim, record), deadline, len)

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Return the records of a name, the newest first."""
        return await self._transport.call(messages.records(name), deadline, replies.records)

    async def guarantees(self, deadline: float) -> Guarantees:
        """Ask the server for its settings, and return what it promises."""
        transport = self._transport

        def read(rows: list[Row]) -> Guarantees:  # called once connected, when these are known
            return guarantees.guarantees(rows, deaf=transport.deaf, unverified=transport.unverified)

        await transport.try_ear(deadline)
        return await transport.call(guarantees.ASK, deadline, read)

    def reset(self) -> None:
        """Forget every connection in a forked child, without sending anything to the server."""
        self._transport.reset()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()
