"""One engine of a dashboard: its client, and what is read from it."""

from __future__ import annotations

from lockfast.aio import AsyncClient, connect
from lockfast.show.address import named
from lockfast.web.reader import Reader


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
        self.reader = Reader(self.client)

    async def close(self) -> None:
        """Stop reading, and close the client unless it belongs to the host application."""
        await self.reader.close()
        if self._owned:
            await self.client.close()
