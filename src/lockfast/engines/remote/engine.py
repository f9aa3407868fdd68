"""The engine that speaks to a replica of the service: implements the port with messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from lockfast.engines.remote import messages, replies
from lockfast.engines.remote.aio import AioTransport
from lockfast.engines.remote.line import UNITS
from lockfast.engines.remote.threads import ThreadTransport
from lockfast.engines.server_clock import ServerClock
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.guarantees import Guarantees
from lockfast.port import Ask, Engine, Page, Standing, Wake

R = TypeVar("R")
IO = 5.0  # seconds that a page may take
SHORT = 2.0  # seconds: renewals of claims with a shorter life are not collected with others


class RemoteEngine:
    """The engine of one client of the service."""

    stand_in: Callable[[], Engine]
    """Makes a blocking engine with the same identity. `opener` sets it for asyncio."""

    batch = messages.AT_ONCE

    def __init__(self, transport: ThreadTransport | AioTransport, *, substitute: bool) -> None:
        """Connect to nothing yet.

        `substitute`: whether this is the stand-in of another engine. Its connection replaces that
        of the other engine, so it must not connect where claims end with their connection.
        """
        self.client = transport.identity.client
        self.on_disconnect = transport.on_disconnect
        self._transport = transport
        self._substitute = substitute
        self._clock: ServerClock | None = None
        self._woken: set[str] = set()
        """Claims that were just woken: their first renewal is urgent."""
        self.busy = False
        """Whether the replica has said in its latest reply that it is overloaded."""
        self._failed = False
        """Whether the last renewal was not answered. Then the next one is urgent too."""

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Make a claim, and return its standing."""
        (found,) = await self._claim((ask,), deadline)
        if isinstance(found, Exception):
            raise found
        return found

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Make several claims, in one message if they are not too large."""
        return await _in_parts(asks, lambda part: self._claim(part, deadline))

    async def _claim(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        clock = self._clock or (await self._transport.connected(deadline)).told
        if clock is None:
            # A claim without `not_after` is not made. The reply tells the engine's time.
            await self._said(messages.Claim(0, self._within(deadline), _asked(asks)), deadline)
            clock = self._clock
        for ask in asks:
            if ask.fixed is None and clock is not None:
                ask.fixed = clock.seconds(ask.not_after)
        request = messages.Claim(0, self._within(deadline), _traced(asks))
        return replies.said(self._where, await self._said(request, deadline), asks)

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Renew claims. The replica may collect them with others for 0.1 s."""
        transport = self._transport
        if self._substitute and not transport.identity.moves:
            raise EngineUnavailable(
                "the claims of this service end with the connection that made them, and the event "
                "loop that has the connection is blocked",
                sent=False,
            )
        woken, self._woken = self._woken, set()
        urgent = (
            (self._failed and not self.on_disconnect)  # a replica then answers most of them itself
            or any(ask.shape.wait_ttl < SHORT for ask in asks)
            or any(ask.id in woken for ask in asks)
        )
        self._failed = True
        within = self._within(deadline)
        found = await _in_parts(
            asks,
            lambda part: self._renew(
                messages.Renew(0, within, _asked(part), urgent), part, deadline
            ),
        )
        self._failed = False
        return found

    async def _renew(
        self, request: messages.Renew, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        return replies.said(self._where, await self._said(request, deadline), asks)

    async def _said(
        self, request: messages.Claim | messages.Renew, deadline: float
    ) -> messages.Said:
        said = await self._transport.call(request, deadline, messages.Said)
        self.busy = said.busy
        if said.now is not None:
            self._clock = ServerClock(int(said.now * UNITS), self._transport.now(), UNITS)
        return said

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        """Remove claims for good. Claims of other clients are broken."""

        async def send(part: Sequence[Ask]) -> list[bool | Exception]:
            within, asked = self._within(deadline), _traced(part)
            request = (
                messages.Resign(0, within, asked, doubt)
                if part[0].id.startswith(self.client)
                else messages.Break(0, within, asked)
            )
            gone = await self._transport.call(request, deadline, messages.Gone)
            return replies.gone(self._where, gone, part)

        if len(asks) == 1:
            return await send(asks)
        found: dict[str, bool | Exception] = {}
        own = [ask for ask in asks if ask.id.startswith(self.client)]
        foreign = [ask for ask in asks if not ask.id.startswith(self.client)]
        for group in (own, foreign):
            if group:
                results = await _in_parts(group, send)
                found |= {ask.id: each for ask, each in zip(group, results, strict=True)}
        return [found[ask.id] for ask in asks]

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Send resignations without waiting for the reply."""
        for part in _parts(asks):
            self._transport.post(messages.Resign(0, IO, _asked(part), doubt=True))

    def hear(self, client: str, *, on: bool) -> None:
        """Start or stop receiving wakes. A replica sends no wakes of other clients."""
        if client == self.client:
            self._transport.hear(on=on)

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait for wakes, a `rouse` or the deadline."""
        wakes = await self._transport.listen(deadline)
        self._woken.update(wake.id for wake in wakes)
        return wakes

    def rouse(self) -> None:
        """Make `listen` return now."""
        self._transport.rouse()

    def time(self, name: str) -> float | None:  # noqa: ARG002  # the port's
        """Return the time of the engine behind the service, by its latest reply."""
        clock = self._clock
        return None if clock is None else clock.seconds(self._transport.now())

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Return a page of the claims on one name, or on all names with a prefix."""
        request = messages.Inspect(0, names, cursor, exact)
        deadline = self._transport.now() + IO
        return replies.page(await self._transport.call(request, deadline, messages.Page))

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        """Store the record of a break."""
        request = messages.Record(0, self._within(deadline), name, claim, record)
        await self._transport.call(request, deadline, messages.Done)

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Return the records of breaks of a name, the newest first."""
        request = messages.Records(0, self._within(deadline), name)
        return (await self._transport.call(request, deadline, messages.Recorded)).records

    async def guarantees(self, deadline: float) -> Guarantees:
        """Return what the engine behind the service guarantees."""
        request = messages.Promise(0, self._within(deadline))
        reply = await self._transport.call(request, deadline, messages.Promised)
        found = replies.promised(reply, moves=self._transport.identity.moves)
        return replace(found, findings=(*found.findings, *self._transport.findings))

    async def sign(self, ask: Ask, audience: str, deadline: float) -> str:
        """Return a signed token of a claim that was granted."""
        request = messages.Sign(0, self._within(deadline), replies.asked(ask), audience)
        return (await self._transport.call(request, deadline, messages.Signed)).token

    def reset(self) -> None:
        """Forget the connection, because the process has forked."""
        self._transport.reset()

    async def close(self) -> None:
        """Close the connection."""
        await self._transport.close()

    @property
    def _where(self) -> str:
        line = self._transport.line
        return line.where if line is not None else "the service"

    def _within(self, deadline: float) -> float:
        """Return for how many seconds the replica may work on a request."""
        return max(deadline - self._transport.now(), 0.0)


def _asked(asks: Sequence[Ask]) -> list[messages.Asked]:
    return [replies.asked(ask) for ask in asks]


def _traced(asks: Sequence[Ask]) -> list[messages.Asked]:
    return [replies.asked(ask, ask.trace) for ask in asks]


def _parts(asks: Sequence[Ask]) -> Iterator[Sequence[Ask]]:
    """Split claims into messages that a replica accepts."""
    part: list[Ask] = []
    size = 0
    for ask in asks:
        if part and (len(part) >= messages.AT_ONCE or size + len(ask.payload) > messages.PAYLOADS):
            yield part
            part, size = [], 0
        part.append(ask)
        size += len(ask.payload)
    if part:
        yield part


async def _in_parts(
    asks: Sequence[Ask], send: Callable[[Sequence[Ask]], Awaitable[list[R | Exception]]]
) -> list[R | Exception]:
    """Send claims in as many messages as needed, one by one. If a later one fails, its claims have
    that error as their result, because those before it have been answered.
    """
    found: list[R | Exception] = []
    for part in _parts(asks):
        try:
            found += await send(part)
        except EngineError as error:
            if not found:
                raise
            found += [error] * len(part)
    return found
