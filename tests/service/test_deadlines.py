"""Requests of one asyncio connection share a timer, and each ends at its own deadline."""

from __future__ import annotations

import asyncio

import pytest

from lockfast.engines.remote.aio import AioTransport
from lockfast.engines.remote.identity import Identity
from lockfast.engines.remote.messages import Inspect, Page
from lockfast.engines.remote.url import address_of
from lockfast.errors import EngineUnavailable
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import now
from lockfast.url import parse
from tests.servers.service import Service
from tests.service.peers import Held, in_loop

LATE = 5.0  # seconds that a loaded machine may add


@in_loop
async def test_each_request_ends_at_its_own_deadline() -> None:
    held = Held()
    held.holding = {"inspect"}
    with Service(lambda _: held.made) as service:
        runtime = Aio()
        runtime.enter()
        transport = AioTransport(address_of(parse(service.url)), Identity(), runtime)
        line = await transport.connected(now() + LATE)
        ended: list[float] = []

        async def ask(seconds: float) -> None:
            deadline = now() + seconds
            with pytest.raises(EngineUnavailable, match="no answer in time"):
                await transport.call(Inspect(0, "a"), deadline, Page)
            assert deadline - 0.01 <= now() < deadline + LATE
            ended.append(seconds)

        # The second is due before the timer of the first, the third and fourth after it.
        await asyncio.gather(*map(ask, (0.6, 0.3, 0.9, 1.2)))
        assert ended == [0.3, 0.6, 0.9, 1.2]
        assert line.idle
        await ask(0.3)  # after all others, a new timer
        held.loop.call_soon_threadsafe(held.let_go)
        await transport.call(Inspect(0, "a"), now() + LATE, Page)
        await transport.close()
