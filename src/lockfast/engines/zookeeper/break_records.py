"""Stores the records of breaks: one node per bucket keeps the newest records of all its names.

ZooKeeper removes no node by its age, so a node for each name would stay for ever. Each record is a
line with the server's time at which it was written, and counts for a day. A server tells its time
only in the reply to a write.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.protocol.serialization import Create, GetData, SetData, Sync

from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.messages import make_above
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.transport import Late, Transport
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import RECORD, RECORDS, REMEMBERED

KEPT = 64  # records in a node, of up to 4 KiB each; ZooKeeper's limit for a node is 1 MB
SHORTEST = 0.01  # seconds: the longest pause after the first conflict; later ones are longer
ANY = -1  # matches every version of a node
_LINE = re.compile(rb"(\S+) ([0-9]{1,16}) (.*)")


class Bucket(NamedTuple):
    """The node of a bucket: its lines, its version, and the server's time when it was written."""

    lines: list[bytes]
    version: int | None
    """None if there is no such node."""
    written: int


class Records:
    """Reads or changes the records of a name."""

    def __init__(self, transport: Transport, session: Session, root: str, deadline: float) -> None:
        """Use this session, until `deadline`."""
        self._transport = transport
        self._session = session
        self._root = root
        self._deadline = deadline

    async def keep(self, name: str, record: bytes) -> None:
        """Store a record in front of the others. Drop those that are too old, and the oldest beyond
        `KEPT`.
        """
        path = nodes.records(self._root, name)
        now = 0
        for attempt in count():
            try:
                now = now or await self._time()
                line = b"%b %d %b" % (nodes.quoted(name).encode(), now, record)
                bucket = await self._read(path)
                data = b"\n".join([line, *_young(bucket.lines, now)][:KEPT])
                if bucket.version is None:
                    await self._settle(Create(path, data, self._session.acl, 0))
                else:
                    await self._settle(SetData(path, data, bucket.version))
            except NoNodeError:  # it is the first record of all
                make_above(self._transport, self._session, path)
            except (BadVersionError, NodeExistsError):
                pass  # another client was quicker: read again
            else:
                return
            await self._pause(attempt)

    async def read(self, name: str) -> list[bytes]:
        """Return the records of a name, the newest first."""
        await self._settle(Sync(self._root))
        bucket = await self._read(nodes.records(self._root, name))
        start = nodes.quoted(name).encode() + b" "
        lines = [line for line in bucket.lines if line.startswith(start)]
        if not lines:  # nearly always, and then nothing is written
            return []
        try:
            now = await self._time()
        except (EngineRefused, EngineUnavailable, NoNodeError):
            # This client may only read, or the answer is late. A holder that asks who broke its
            # lock has little time, and a record that is too old is better than none.
            now = bucket.written
        return [line.split(b" ", 2)[2] for line in _young(lines, now)][:RECORDS]

    async def _time(self) -> int:
        """Return the server's time, in milliseconds: that of a write which changes nothing."""
        stat = await self._settle(SetData(nodes.breaks(self._root), b"", ANY))
        return int(stat.mtime)

    async def _read(self, path: str) -> Bucket:
        try:
            data, stat = await self._settle(GetData(path, None))
        except NoNodeError:
            return Bucket([], None, 0)
        lines = [line for line in (data or b"").split(b"\n") if 0 < len(line) <= RECORD * 2]
        return Bucket(lines[:KEPT], stat.version, stat.mtime)

    async def _pause(self, attempt: int) -> None:
        """Sleep for a random time, so that other clients can write first. The sleep is a wait for a
        reply that never comes.
        """
        now = self._transport.now()
        pause = SHORTEST * 2 ** min(attempt, 5) * random.random()  # noqa: S311  # no secret
        if now + pause >= self._deadline:
            raise EngineUnavailable("other clients kept changing the records of breaks", sent=False)
        with suppress(Late):
            await self._transport.wait(self._transport.reply(), now + pause)

    async def _settle(self, request: object) -> Any:  # noqa: ANN401  # see Reply
        reply = self._session.send(self._transport, request)
        return await self._session.settle(self._transport, reply, self._deadline)


def _young(lines: Iterable[bytes], now: int) -> Iterator[bytes]:
    """Return the lines that are less than a day old. Drop what other programs may have written. A
    line may be a little younger than `now`, if another server with another clock leads meanwhile.
    """
    for line in lines:
        found = _LINE.fullmatch(line)
        if found is not None and abs(now - int(found[2])) < REMEMBERED * 1000:
            yield line
