"""The MySQL and MariaDB engine: implements the port with stored procedures and a transport."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from lockfast.engines.mysql import guarantees, messages, replies
from lockfast.engines.mysql.ear import Ear, deaf
from lockfast.engines.mysql.transport import UNITS, Transport
from lockfast.engines.pushes import before
from lockfast.engines.server_clock import ServerClock
from lockfast.errors import EngineError
from lockfast.guarantees import Guarantees
from lockfast.port import EVERYONE, TOMB_MARGIN, Ask, Engine, Page, Standing, Wake
from lockfast.runtime.base import Clock

GLANCE = 0.5  # seconds between reads of the waiters' standings, while the ear cannot connect
MARGIN = int(TOMB_MARGIN * UNITS)


class MysqlEngine:
    """The engine of one client on a MySQL or MariaDB database."""

    batch = 64
    """One commit carries many claims: it waits for the disk once."""
    stand_in: Callable[[], Engine]
    """Makes a blocking engine for the same URL, which can renew this engine's claims, because only
    the server knows which claims live. `opener` sets it for asyncio."""

    def __init__(self, transport: Transport, clock: Clock, base: int) -> None:
        """Connect to nothing yet. `base` is added to the clock in new tickets."""
        self._transport = transport
        self._ear = Ear(transport, clock)
        self._now = clock
        self._base = base
        self._client: str | None = None
        self._greeted = False
        self._waiting = 0.0  # the time until which a claim of ours may wait

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Append a claim and report its standing, in one round trip."""
        (found,) = await self.claim_all((ask,), deadline)
        if isinstance(found, Exception):
            raise found
        return found

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Append several claims: one call, one transaction."""
        if not asks:
            return []
        if self._client is None:
            self._client = asks[0].id[: messages.CLIENT]
            self._transport.bell.ring()
        clock = await self._clock(deadline)
        order = messages.order(asks)
        some = [asks[place] for place in order]
        sql = messages.claim(some, [clock.latest(ask) for ask in some], self._base)
        read = partial(replies.claimed, asks=some)
        answers = await self._transport.call(sql, deadline, read)
        found: list[Standing | Exception | None] = [None] * len(asks)
        for place, (micros, answer) in zip(order, answers, strict=True):
            self._claimed(micros, answer, asks[place])
            found[place] = answer
        return found

    def _claimed(self, micros: int, found: Standing | Exception | None, ask: Ask) -> None:
        if found is None:
            # The id is dead, or the server's clock was moved. Note the clock for the next id.
            self._transport.clock = ServerClock(micros, self._now(), UNITS)
        elif isinstance(found, Standing) and found.ticket and not found.granted:
            listening = self._waiting > self._now()
            self._wait(ask)
            if not listening:
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
        order = messages.order(asks)
        some = [asks[place] for place in order]
        read = partial(replies.renewed, asks=some)
        answers = await self._transport.call(messages.renew(some), deadline, read, heart=True)
        received = self._now()
        found: list[Standing | Exception | None] = [None] * len(asks)
        for place, (micros, standing) in zip(order, answers, strict=True):
            self._transport.clock = ServerClock(micros, received, UNITS)
            if isinstance(standing, Standing) and not standing.granted:
                self._wait(asks[place])
            found[place] = standing
        return found

    async def resign(self, asks: Sequence[Ask], deadline: float, *, doubt: bool) -> list[bool]:
        """Remove claims for good, in one transaction. The server wakes the waiters."""
        if not asks:
            return []
        order = messages.order(asks)
        some = [asks[place] for place in order]
        untils = None
        if doubt:
            clock = await self._clock(deadline)
            untils = [clock.last(ask) + MARGIN for ask in some]
        read = partial(replies.resigned, asks=some)
        answers = await self._transport.call(messages.resign(some, untils), deadline, read)
        removed = [False] * len(asks)
        for place, answer in zip(order, answers, strict=True):
            removed[place] = answer
        return removed

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Do nothing. No statement can follow a claim under way, so the heart resigns it later."""

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait for notes of grants, while a claim of ours waits. Notes are kept at the server from
        the first claim on, so nothing is missed before the ear connects.
        """
        if self._client is not None and not self._greeted:
            self._greeted = True
            return [EVERYONE]
        if self._client is None or self._waiting <= self._now():
            # Idle, it would be dropped by the server or a NAT, and the next waiter would find out.
            self._ear.close()
            await self._transport.bell.wait(deadline)
            return []
        try:
            return await self._ear.listen(self._client, deadline)
        except EngineError:
            soon = self._now() + GLANCE
            await self._transport.bell.wait(before(deadline, soon))
            return [EVERYONE] if self._now() >= soon else []

    def rouse(self) -> None:
        """Make `listen` return now."""
        self._transport.bell.ring()

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
        call = self._transport.call
        settings = await call(guarantees.VARIABLES, deadline, guarantees.table)
        status = await call(guarantees.STATUS, deadline, guarantees.table)
        unable = await deaf(self._transport, deadline)
        return guarantees.guarantees(settings, status, self._transport.address, unable)

    def reset(self) -> None:
        """Forget every connection in a forked child, without sending anything to the server."""
        self._ear.reset()
        self._transport.reset()

    async def close(self) -> None:
        """Close the connections."""
        self._ear.close()
        await self._transport.close()
