"""The MySQL and MariaDB engine: implements the port with stored procedures and a transport."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from lockfast.engines.mysql import guarantees, messages, replies
from lockfast.engines.mysql.crowd import Crowd
from lockfast.engines.mysql.ear import Ear, deaf
from lockfast.engines.mysql.packing import packed, refuse_too_large
from lockfast.engines.mysql.transport import UNITS, Transport
from lockfast.engines.pushes import before
from lockfast.engines.server_clock import ServerClock
from lockfast.engines.sql import singly
from lockfast.engines.sql.hearing import Hearing
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.guarantees import Guarantees
from lockfast.port import (
    CLIENT,
    EVERYONE,
    TOMB_MARGIN,
    Ask,
    Engine,
    Page,
    Standing,
    Wake,
    everyone_of,
)
from lockfast.runtime.base import Clock

Reply = TypeVar("Reply")
GLANCE = 0.5  # seconds between reads of the waiters' standings, while the ear cannot connect
MARGIN = int(TOMB_MARGIN * UNITS)
CHANGES = 256  # clients that come or leave in one round of `listen`


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
        self._hearing = Hearing()
        self._client = ""
        """The client, as long as there is one."""
        self._crowd: Crowd | None = None
        """The ear in place of `_ear`, once there were two clients."""
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
        """Append several claims, in one transaction if they fit into one packet."""
        if not asks:
            return []
        clock = await self._clock(deadline)

        async def send(some: Sequence[Ask]) -> list[Standing | Exception | None]:
            lates = [clock.latest(ask) for ask in some]
            sql = messages.claim(some, lates, self._base)
            answers = await self._transport.call(sql, deadline, partial(replies.claimed, asks=some))
            for (micros, answer), ask in zip(answers, some, strict=True):
                self._claimed(micros, answer, ask)
            return [answer for _, answer in answers]

        return await self._in_calls(asks, messages.claim_size, send)

    async def _in_calls(
        self,
        asks: Sequence[Ask],
        size: Callable[[Ask], int],
        send: Callable[[Sequence[Ask]], Coroutine[Any, Any, list[Reply]]],
        order: Sequence[int] | None = None,
    ) -> list[Reply | EngineError]:
        """Send a batch in as few calls as the server's packets allow, mostly in one. Each call is a
        transaction, and its failure is the answer to its own claims. Nothing follows a call that
        was not answered, because each would wait in turn.
        """
        found: dict[int, Reply | EngineError] = {}
        missing: EngineUnavailable | None = None
        order = messages.order(asks) if order is None else order
        parts = [*packed(asks, order, size, self._transport.packet)]
        for part in parts:
            if missing is not None:
                unsent = EngineUnavailable(missing.message, sent=False)
                found.update(dict.fromkeys(part, unsent))
                continue
            some = [asks[place] for place in part]
            try:
                refuse_too_large(size(some[0]), self._transport.packet)
                found.update(zip(part, await send(some), strict=True))
            except EngineError as error:
                if len(parts) == 1:
                    raise
                found.update(dict.fromkeys(part, error))
                missing = error if isinstance(error, EngineUnavailable) else None
        return [found[place] for place in range(len(asks))]

    def _claimed(self, micros: int, found: Standing | Exception | None, ask: Ask) -> None:
        if found is None:
            # The id is dead, or the server's clock was moved. Note the clock for the next id.
            self._transport.clock = ServerClock(micros, self._now(), UNITS)
        if isinstance(found, Standing) and found.ticket and not found.granted:
            listening, crowd = self._waiting > self._now(), self._crowd
            self._wait(ask)
            if not listening or (crowd is not None and not crowd.knows(ask.id[:CLIENT])):
                self._transport.bell.ring()
        elif not isinstance(found, Exception):
            self._end((ask,))

    def _wait(self, ask: Ask) -> None:
        until = self._now() + ask.shape.wait_ttl
        self._waiting = max(self._waiting, until)
        if self._crowd is not None:
            self._crowd.waiting.begins(ask.id, until)

    def _end(self, asks: Sequence[Ask]) -> None:
        """Note that claims do not wait any more."""
        if self._crowd is not None:
            for ask in asks:
                self._crowd.waiting.ends(ask.id)

    async def _clock(self, deadline: float) -> ServerClock:
        """Return the server's clock. Connect first if it is not known yet."""
        if self._transport.clock is None:
            await self._transport.call(b"SELECT 1", deadline, len)
        assert self._transport.clock is not None  # noqa: S101  # connecting sets it
        return self._transport.clock

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend claims, in one transaction if they fit into one packet."""
        if not asks:
            return []

        async def send(some: Sequence[Ask]) -> list[Standing | Exception | None]:
            read = partial(replies.renewed, asks=some)
            answers = await self._transport.call(messages.renew(some), deadline, read, heart=True)
            received = self._now()
            for (micros, standing), ask in zip(answers, some, strict=True):
                self._transport.clock = ServerClock(micros, received, UNITS)
                if isinstance(standing, Standing) and not standing.granted:
                    self._wait(ask)
                elif not isinstance(standing, Exception):
                    self._end((ask,))
            return [standing for _, standing in answers]

        return await self._in_calls(asks, messages.size, send)

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        """Remove claims for good. The server wakes the waiters."""
        if not asks:
            return []
        clock = await self._clock(deadline) if doubt else None

        async def call(some: Sequence[Ask]) -> list[bool]:
            untils = [clock.last(ask) + MARGIN for ask in some] if clock else None
            read = partial(replies.resigned, asks=some)
            removed = await self._transport.call(messages.resign(some, untils), deadline, read)
            self._end(some)
            return removed

        async def send(some: Sequence[Ask]) -> list[bool | Exception]:
            return await singly.resigned(call, some, deadline, self._now)

        return await self._in_calls(asks, messages.size, send)

    async def attach(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        """Store which connection of the service the claims belong to. In the order of ids, because
        each row stays locked until the commit.
        """
        order = sorted(range(len(asks)), key=lambda place: asks[place].id)

        async def send(some: Sequence[Ask]) -> list[bool | Exception]:
            read = partial(replies.resigned, asks=some)
            return [*await self._transport.call(messages.attach(some), deadline, read)]

        return await self._in_calls(asks, messages.ending_size, send, order)

    async def depart(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        """Remove the claims that still belong to their connection. The server wakes the waiters."""
        clock = await self._clock(deadline)

        async def call(some: Sequence[Ask]) -> list[bool]:
            untils = [clock.last(ask) + MARGIN for ask in some]
            read = partial(replies.resigned, asks=some)
            removed = await self._transport.call(messages.depart(some, untils), deadline, read)
            self._end([ask for ask, gone in zip(some, removed, strict=True) if gone])
            return removed

        async def send(some: Sequence[Ask]) -> list[bool | Exception]:
            return await singly.resigned(call, some, deadline, self._now)

        return await self._in_calls(asks, messages.ending_size, send)

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Do nothing. No statement can follow a claim under way, so the heart resigns it later."""

    def hear(self, client: str, *, on: bool) -> None:
        """Start or stop receiving the wakes of a client."""
        self._hearing.hear(client, on=on)
        self._transport.bell.ring()

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait for notes of grants, while a claim of ours waits. Notes are kept at the server from
        the first claim on, so nothing is missed before the ear connects.
        """
        if self._hearing.changed:
            return self._change()
        if not self._hearing or self._waiting <= self._now():
            # Idle, it would be dropped by the server or a NAT, and the next waiter would find out.
            self._close_ears()
            await self._transport.bell.wait(deadline)
            return []
        try:
            if self._crowd is not None:
                return await self._crowd.listen(deadline)
            return await self._ear.listen(self._client, deadline)
        except EngineError:
            soon = self._now() + GLANCE
            await self._transport.bell.wait(before(deadline, soon))
            return [EVERYONE] if self._now() >= soon else []

    def _change(self) -> list[Wake]:
        """Hear the clients that have come, and no longer those that have left."""
        if self._crowd is not None:
            changes = self._hearing.take(CHANGES)
            for client, on in changes.items():
                if on:
                    self._crowd.come(client)
                else:
                    self._crowd.leave(client)
            return [everyone_of(client) for client, on in changes.items() if on]
        clients = self._hearing.every()
        self._ear.close()  # it may be that of another client
        self._ear = Ear(self._transport, self._now)
        if len(clients) > 1:
            self._crowd = Crowd(self._transport, self._now, self._hearing)
            return [EVERYONE]
        self._client = "".join(clients)
        return [everyone_of(client) for client in clients]

    def _close_ears(self) -> None:
        self._ear.close()
        if self._crowd is not None:
            self._crowd.close()

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
        call = self._transport.call
        settings = await call(guarantees.VARIABLES, deadline, guarantees.table)
        status = await call(guarantees.STATUS, deadline, guarantees.table)
        unable = await deaf(self._transport, deadline)
        return guarantees.guarantees(settings, status, self._transport.address, unable)

    def reset(self) -> None:
        """Forget every connection in a forked child, without sending anything to the server."""
        self._ear.reset()
        if self._crowd is not None:
            self._crowd.reset()
        self._transport.reset()

    async def close(self) -> None:
        """Close the connections."""
        self._close_ears()
        await self._transport.close()
