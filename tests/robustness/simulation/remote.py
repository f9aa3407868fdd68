"""The client's side of the simulated engine: the port, over the simulated network.

Deadlines, the learning of the engine's clock and tombstones are done as the Redis engine does them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from lockfast.errors import EngineUnavailable, KindMismatch
from lockfast.guarantees import Guarantees
from lockfast.port import EVERYONE, Ask, Entry, Page, ServerTime, Standing, Wake
from tests.robustness.simulation.server import Answer, Push, Request, Result
from tests.robustness.simulation.witness import Witness
from tests.robustness.simulation.world import Process

LOOKING = 0.6  # seconds for an answer to who looks at a queue


class Side(Protocol):
    """What answers the requests of a client's engine: the server, or a way to it."""

    witness: Witness

    def hear(self, prefix: str, process: Process, push: Push) -> None:
        """Send the wakes of a client to its process."""

    def request(
        self,
        client: Process,
        request: Request,
        answer: Answer | None = None,
        cut: Callable[[], object] | None = None,
    ) -> None:
        """Send a request. `cut` is called instead of `answer` if it is unknown what came of it."""


class Remote:
    """One client's engine."""

    def __init__(self, process: Process, server: Side, prefix: str) -> None:
        self._process = process
        self._server = server
        self._offset: float | None = None
        self._pushes: list[Wake] = [EVERYONE]
        self._roused = False
        self._sleeper: asyncio.Future[None] | None = None
        server.hear(prefix, process, self._push)

    async def _call(self, request: Request, deadline: float) -> Result:
        process = self._process
        future: asyncio.Future[Result] = process.create_future()

        def answer(result: Result | None, told: float) -> None:
            if future.done():
                return
            if result is None:
                future.set_exception(EngineUnavailable("it is down", sent=False))
            else:
                self._offset = told - process.time()
                future.set_result(result)

        def fail() -> None:
            if not future.done():
                future.set_exception(EngineUnavailable("no answer came", sent=True))

        self._server.request(process, request, answer, fail)
        timer = process.call_later(max(deadline - process.time(), 0.0), fail)
        try:
            return await future
        finally:
            timer.cancel()

    async def _meet(self, deadline: float) -> float:
        if self._offset is None:
            try:
                await self._call(Request("hello"), deadline)
            except EngineUnavailable as error:
                raise EngineUnavailable("it was not met", sent=False) from error
        assert self._offset is not None
        return self._offset

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        (standing,) = await self.claim_all((ask,), deadline)
        if isinstance(standing, Exception):
            raise standing
        return standing

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        offset = await self._meet(deadline)
        self._server.witness.claiming(asks, self._process)
        copies = []
        for ask in asks:
            copy = copied(ask, ask.not_after + offset)
            ask.late = max(ask.late, ServerTime(int(copy.not_after * 1e6)))
            copies.append(copy)
        result = await self._call(Request("claim", tuple(copies)), deadline)
        return [each if isinstance(each, (Standing, KindMismatch)) else None for each in result]

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        result = await self._call(Request("renew", _copies(asks, 0.0)), deadline)
        return [each if isinstance(each, Standing) else None for each in result]

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        await self._meet(deadline)
        result = await self._call(self._resignation(asks, doubt=doubt), deadline)
        return [each is True for each in result]

    def _resignation(self, asks: Sequence[Ask], *, doubt: bool) -> Request:
        assert self._offset is not None
        self._server.witness.resigning(asks, self._process)
        return Request("resign", _copies(asks, self._process.time(), self._offset), doubt)

    def abandon(self, asks: Sequence[Ask]) -> None:
        if self._offset is not None:
            self._server.request(self._process, self._resignation(asks, doubt=True))

    def hear(self, client: str, *, on: bool) -> None:
        pass  # the constructor has the client's prefix

    async def listen(self, deadline: float | None) -> list[Wake]:
        process = self._process
        if not self._pushes and not self._roused:
            left = None if deadline is None else deadline - process.time()
            if left is None or left > 0.0:
                self._sleeper = process.create_future()
                timer = None if left is None else process.call_later(left, self.rouse)
                try:
                    await self._sleeper
                finally:
                    self._sleeper = None
                    if timer is not None:
                        timer.cancel()
        self._roused = False
        pushes, self._pushes = self._pushes, []
        return pushes

    def _push(self, wake: Wake) -> None:
        self._pushes.append(wake)
        self.rouse()

    def rouse(self) -> None:
        self._roused = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def time(self, name: str) -> float | None:
        del name
        return None if self._offset is None else self._process.time() + self._offset

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        assert exact
        assert cursor is None
        request = Request("inspect", name=names)
        result = await self._call(request, self._process.time() + LOOKING)
        return Page([each for each in result if isinstance(each, Entry)], None)

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        raise NotImplementedError  # nobody breaks anything

    async def records(self, name: str, deadline: float) -> list[bytes]:
        del name, deadline
        return []

    async def guarantees(self, deadline: float) -> Guarantees:
        raise NotImplementedError  # nobody asks

    def reset(self) -> None:
        """Nothing is forked."""

    async def close(self) -> None:
        """Nothing is open."""


def _copies(asks: Sequence[Ask], now: float, offset: float = 0.0) -> tuple[Ask, ...]:
    """Copy what goes over the wire, with the last moment of any copy in the engine's time."""
    lasts = (max(max(ask.not_after, now) + offset, ask.late / 1e6) for ask in asks)
    return tuple(copied(ask, last) for ask, last in zip(asks, lasts, strict=True))


def copied(ask: Ask, not_after: float) -> Ask:
    """Copy what goes over the wire."""
    copy = Ask(ask.id, ask.shape, ask.queue, not_after, ask.payload)
    copy.ticket, copy.granted = ask.ticket, ask.granted
    return copy
