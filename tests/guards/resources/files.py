"""A register in a file. `where` is its path."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lockfast.blocking.client import Lease
from lockfast.guards.files import AsyncFileGuard, FileGuard


class FileRegister:
    """For threads."""

    def __init__(self, where: str) -> None:
        self.path = Path(where)
        self.guard = FileGuard(where)

    def seal(self, lease: Lease) -> None:
        self.guard.seal(lease)

    def read(self, lease: Lease) -> str:
        return self.path.read_text("utf-8")

    def write(self, lease: Lease, value: str) -> None:
        self.guard.write(lease, value.encode())

    def write_bare(self, lease: Lease, value: str) -> None:
        self.path.write_text(value, "utf-8")

    def close(self) -> None:
        pass


class AsyncFileRegister:
    """For asyncio."""

    def __init__(self, where: str) -> None:
        self.path = Path(where)
        self.guard = AsyncFileGuard(where)

    async def seal(self, lease: Lease) -> None:
        await self.guard.seal(lease)

    async def read(self, lease: Lease) -> str:
        return await asyncio.to_thread(self.path.read_text, "utf-8")

    async def write(self, lease: Lease, value: str) -> None:
        await self.guard.write(lease, value.encode())

    async def write_bare(self, lease: Lease, value: str) -> None:
        await asyncio.to_thread(self.path.write_text, value, "utf-8")

    async def close(self) -> None:
        pass
