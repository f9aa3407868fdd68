"""A register behind HTTP. `where` is its URL, `/kept/` and all."""

from __future__ import annotations

import httpx

from lockfast.blocking.client import Lease
from lockfast.guards.http.httpx import Fencing


class HttpRegister:
    """With httpx, blocking."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.client = httpx.Client(trust_env=False)

    def seal(self, lease: Lease) -> None:
        self.client.get(self.where, auth=Fencing(lease)).raise_for_status()

    def read(self, lease: Lease) -> str:
        return self.client.get(self.where).raise_for_status().text

    def write(self, lease: Lease, value: str) -> None:
        self.client.put(self.where, content=value, auth=Fencing(lease)).raise_for_status()

    def write_bare(self, lease: Lease, value: str) -> None:
        self.client.put(self.where, content=value).raise_for_status()

    def close(self) -> None:
        self.client.close()


class AsyncHttpRegister:
    """With httpx, in asyncio."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.client = httpx.AsyncClient(trust_env=False)

    async def seal(self, lease: Lease) -> None:
        (await self.client.get(self.where, auth=Fencing(lease))).raise_for_status()

    async def read(self, lease: Lease) -> str:
        return (await self.client.get(self.where)).raise_for_status().text

    async def write(self, lease: Lease, value: str) -> None:
        reply = await self.client.put(self.where, content=value, auth=Fencing(lease))
        reply.raise_for_status()

    async def write_bare(self, lease: Lease, value: str) -> None:
        (await self.client.put(self.where, content=value)).raise_for_status()

    async def close(self) -> None:
        await self.client.aclose()
