"""One engine of a dashboard: its client, and what is read from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar

from lockfast.aio import AsyncClient, connect
from lockfast.breaks import Break
from lockfast.guarantees import Guarantees
from lockfast.runtime.base import now
from lockfast.show.address import named
from lockfast.web.onlooker import Onlooker
from lockfast.web.reader import Reader

T = TypeVar("T")
FRESH = 5.0  # seconds for which a reply is shown to others too
NAMES = 256  # locks of which the records of breaks are kept


class Kept(Generic[T]):
    """A reply of an engine that several viewers share."""

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Take the question."""
        self._ask = ask
        self._asking = asyncio.Lock()
        self._reply: tuple[float, T] | None = None

    async def value(self) -> T:
        """Return the reply, which is at most `FRESH` seconds old."""
        async with self._asking:
            if self._reply is None or now() > self._reply[0]:
                reply = await self._ask()
                self._reply = now() + FRESH, reply
            return self._reply[1]


class Source:
    """An engine that is shown. Its client is made, and closed, here unless it was given."""

    def __init__(self, name: str, client: AsyncClient | str | None) -> None:
        """Take a client, or the URL of an engine (None: LOCKFAST_URL). Nothing is sent yet."""
        self.name = name
        """Its name below the mount; empty if there is only one engine."""
        self._owned = not isinstance(client, AsyncClient)
        self.client = client if isinstance(client, AsyncClient) else connect(client)
        target = self.client._session.target  # noqa: SLF001  # without its secrets
        self.title = name or ("engine" if target is None else named(target))
        self.onlooker = Onlooker(self.client._session, alone=not name)  # noqa: SLF001  # which engine
        self.reader = Reader(self.client, self.onlooker)
        self._guarantees: Kept[Guarantees] = Kept(self.client.guarantees)
        self._breaks: dict[str, Kept[list[Break]]] = {}

    async def guarantees(self) -> Guarantees:
        """Return what the engine guarantees. Many viewers cost one request in a while."""
        return await self._guarantees.value()

    async def breaks(self, name: str) -> list[Break]:
        """Return who has broken a lock, in the same way."""
        kept = self._breaks.get(name)
        if kept is None:
            if len(self._breaks) >= NAMES:
                self._breaks.clear()
            kept = self._breaks[name] = Kept(partial(self.client.breaks, name))
        return await kept.value()

    def forget(self, name: str) -> None:
        """Ask the engine again who has broken a lock, at the next look."""
        self._breaks.pop(name, None)

    async def close(self) -> None:
        """Stop reading, and close the client unless it belongs to the host application."""
        self.onlooker.close()
        await self.reader.close()
        if self._owned:
            await self.client.close()
