"""Stores the records of breaks: one node per bucket keeps the newest records of all its names.

ZooKeeper removes no node by its age, so a node for each name would stay for ever.
"""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import count
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.protocol.serialization import Create, GetData, SetData, Sync

from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.messages import make_above
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.transport import Late, Transport
from lockfast.errors import EngineUnavailable
from lockfast.port import RECORD, RECORDS

KEPT = 64  # records in a node, of up to 4 KiB each; ZooKeeper's limit for a node is 1 MB
SHORTEST = 0.01  # seconds: the longest pause after the first conflict; later ones are longer


class Records:
    """Reads or changes the records of a name."""

    def __init__(self, transport: Transport, session: Session, root: str, deadline: float) -> None:
        """Use this session, until `deadline`."""
        self._transport = transport
        self._session = session
        self._root = root
        self._deadline = deadline

    async def keep(self, name: str, record: bytes) -> None:
        """Store a record in front of the others, and drop the oldest beyond `KEPT`."""
        path = nodes.records(self._root, name)
        line = nodes.quoted(name).encode() + b" " + record
        for attempt in count():
            lines, version = await self._read(path)
            data = b"\n".join([line, *lines][:KEPT])
            try:
                if version is not None:
                    await self._settle(SetData(path, data, version))
                    return
                make_above(self._transport, self._session, path)
                await self._settle(Create(path, data, self._session.acl, 0))
            except (BadVersionError, NodeExistsError, NoNodeError):
                await self._pause(attempt)  # another client was quicker: read again
            else:
                return

    async def read(self, name: str) -> list[bytes]:
        """Return the records of a name, the newest first."""
        await self._settle(Sync(self._root))
        lines, _ = await self._read(nodes.records(self._root, name))
        start = nodes.quoted(name).encode() + b" "
        return [line[len(start) :] for line in lines if line.startswith(start)][:RECORDS]

    async def _read(self, path: str) -> tuple[list[bytes], int | None]:
        try:
            data, stat = await self._settle(GetData(path, None))
        except NoNodeError:
            return [], None
        lines = (data or b"").split(b"\n")
        return [line for line in lines if 0 < len(line) <= RECORD * 2][:KEPT], stat.version

    async def _pause(self, attempt: int) -> None:
        """Sleep for a random time, so that other clients can write first. The sleep is a wait for a
        reply that never comes.
        """
        now = self._transport.now()
        pause = SHORTEST * 2 ** min(attempt, 5) * random.random()  # noqa: S311  # no secret
        if now + pause >= self._deadline:
            raise EngineUnavailable("others change the records of breaks all the time", sent=False)
        with suppress(Late):
            await self._transport.wait(self._transport.reply(), now + pause)

    async def _settle(self, request: object) -> Any:  # noqa: ANN401  # see Reply
        reply = self._session.send(self._transport, request)
        return await self._session.settle(self._transport, reply, self._deadline)
