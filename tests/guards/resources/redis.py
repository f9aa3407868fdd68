"""A register in Redis: one key behind the guard. `where` is the URL."""

from __future__ import annotations

from typing import ClassVar

import redis
import redis.asyncio

from lockfast.blocking.client import Lease
from lockfast.guards.redis import AsyncRedisGuard, RedisGuard

KEY = "{story}:register"


class RedisRegister:
    """With redis-py's client for threads."""

    broken: ClassVar[tuple[type[Exception], ...]] = (redis.RedisError,)

    def __init__(self, where: str) -> None:
        self.client = redis.Redis.from_url(where)
        self.guard = RedisGuard(self.client)

    def seal(self, lease: Lease) -> None:
        self.guard.seal(lease)

    def read(self, lease: Lease) -> str:
        value = self.client.get(KEY)
        assert isinstance(value, bytes)
        return value.decode()

    def write(self, lease: Lease, value: str) -> None:
        self.guard.apply(lease, [("SET", KEY, value)])

    def write_bare(self, lease: Lease, value: str) -> None:
        self.client.set(KEY, value)

    def close(self) -> None:
        self.client.close()


class AsyncRedisRegister:
    """With redis-py's client for asyncio."""

    def __init__(self, where: str) -> None:
        self.client = redis.asyncio.Redis.from_url(where)
        self.guard = AsyncRedisGuard(self.client)

    async def seal(self, lease: Lease) -> None:
        await self.guard.seal(lease)

    async def read(self, lease: Lease) -> str:
        value = await self.client.get(KEY)
        assert isinstance(value, bytes)
        return value.decode()

    async def write(self, lease: Lease, value: str) -> None:
        await self.guard.apply(lease, [("SET", KEY, value)])

    async def write_bare(self, lease: Lease, value: str) -> None:
        await self.client.set(KEY, value)

    async def close(self) -> None:
        await self.client.aclose()
