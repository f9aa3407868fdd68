"""lockfast.aio on uvloop, which uvicorn installs. `make test` runs the contract on it as well."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import uvloop

from lockfast import aio
from tests.servers import Redis, RedlockSet


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    with Redis() as plain, Redis(tls=True) as tls, RedlockSet(3) as several:
        yield {"redis": plain.url, "rediss": tls.url, "redlock": several.url}


@pytest.mark.parametrize("scheme", ["redis", "rediss", "redlock"])
def test_locks_are_acquired_handed_over_and_released_on_uvloop(
    servers: dict[str, str], scheme: str
) -> None:
    async def play() -> None:
        async with aio.connect(servers[scheme]) as client, aio.connect(servers[scheme]) as other:
            lease = await client.lock("x", ttl=5).acquire(timeout=3)
            waiting = asyncio.ensure_future(_hold(other))
            while len(await client.lock("x").queue()) != 2:  # noqa: ASYNC110  # an engine's, not ours
                await asyncio.sleep(0.01)
            await lease.release()
            assert await asyncio.wait_for(waiting, 3) > lease.token

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())


async def _hold(client: aio.AsyncClient) -> int:
    async with client.lock("x", ttl=5) as lease:
        return lease.token
