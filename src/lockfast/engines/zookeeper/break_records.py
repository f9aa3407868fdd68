"""The records of breaks: a node for each bucket keeps the last of all its names.

ZooKeeper removes no node by its age. A node for each name would stay for ever.
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

KEPT = 64  # records in a node, of 4 KiB each: ZooKeeper's limit is a megabyte
SHORTEST = 0.01  # seconds of a pause, at most, after the first time that another was quicker


class Records:
    """One look at the records of a name, or a change of them."""

    def __init__(self, transport: Transport, session: Session, root: str, deadline: float) -> None:
        """Use this session."""
        self._transport = transport
        self._session = session
        self._root = root
        self._deadline = deadline

    async def keep(self, name: str, record: bytes) -> None:
        """Put a record in front of the others, and cut the oldest."""
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
                await self._pause(attempt)  # another was quicker: read again
            else:
                return

    async def read(self, name: str) -> list[bytes]:
        """Read the records of a name, the newest first."""
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
        """Let others write the node first: wait for a reply that nobody sends."""
        now = self._transport.now()
        pause = SHORTEST * 2 ** min(attempt, 5) * random.random()  # noqa: S311  # no secret
        if now + pause >= self._deadline:
            raise EngineUnavailable("others change the records of breaks all the time", sent=False)
        with suppress(Late):
            await self._transport.wait(self._transport.reply(), now + pause)

    async def _settle(self, request: object) -> Any:  # noqa: ANN401  # see Reply
        reply = self._session.send(self._transport, request)
        return await self._session.settle(self._transport, reply, self._deadline)
