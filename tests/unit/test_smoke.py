"""One lock in each mode on each engine: if this fails, look here first."""

from __future__ import annotations

import asyncio

import lockfast
from lockfast import aio
from tests.servers import Redis


def test_a_lock_in_each_mode_on_redis() -> None:
    with Redis() as server:
        with lockfast.connect(server.url) as client, client.lock("x") as lease:
            first = lease.token
            assert client.lock("x").try_acquire() is None

        async def second() -> int:
            async with aio.connect(server.url) as client, client.lock("x") as lease:
                return lease.token

        assert asyncio.run(second()) > first
