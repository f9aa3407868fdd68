"""The same register with aiobotocore. In a module of its own: importing it takes a second."""

from __future__ import annotations

from typing import Self

import aiobotocore.session
from aiobotocore.config import AioConfig

from lockfast.blocking.client import Lease
from lockfast.guards.objects import AsyncObjectGuard
from tests.guards.resources.objects import BUCKET, KEY, LOGIN, Client


class AsyncStore:
    """A client for asyncio."""

    def __init__(self, where: str) -> None:
        session = aiobotocore.session.get_session()
        config = AioConfig(s3={"addressing_style": "path"})
        self._made = session.create_client("s3", endpoint_url=where, config=config, **LOGIN)
        self.client: Client = None

    async def open(self) -> Self:
        self.client = await self._made.__aenter__()
        return self

    async def close(self) -> None:
        if self.client is not None:
            await self._made.__aexit__(None, None, None)


class AsyncObjectRegister:
    """With aiobotocore."""

    def __init__(self, where: str) -> None:
        self.store = AsyncStore(where)

    async def _guard(self) -> AsyncObjectGuard:
        if self.store.client is None:
            await self.store.open()
        return AsyncObjectGuard(self.store.client, BUCKET)

    async def seal(self, lease: Lease) -> None:
        await (await self._guard()).seal(lease, KEY)

    async def read(self, lease: Lease) -> str:
        found = await (await self._guard()).get(KEY)
        if found is None:
            reply = await self.store.client.get_object(Bucket=BUCKET, Key=KEY + " bare")
            found = await reply["Body"].read()
        assert isinstance(found, bytes)
        return found.decode()

    async def write(self, lease: Lease, value: str) -> None:
        await (await self._guard()).put(lease, KEY, value.encode())

    async def write_bare(self, lease: Lease, value: str) -> None:
        await self._guard()
        await self.store.client.put_object(Bucket=BUCKET, Key=KEY + " bare", Body=value.encode())

    async def close(self) -> None:
        await self.store.close()
