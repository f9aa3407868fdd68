"""Shows: the claims on one name or on many, for people to look at. Nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import GetChildren, GetData, Sync

from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.colour import Colour, Reply
from lockfast.engines.zookeeper.ledger import Ledger
from lockfast.engines.zookeeper.nodes import Line
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.talk import listed
from lockfast.port import Entry, Page

CHUNK = 64
PAGE = 500  # entries after which no further bucket is read


class Show:
    """One look from outside."""

    def __init__(self, colour: Colour, session: Session, deadline: float) -> None:
        """Read with this session."""
        self._colour = colour
        self._session = session
        self._deadline = deadline

    async def one(self, root: str, name: str, ledger: Ledger, now: float) -> list[Entry]:
        """Show the claims on one name."""
        await self._sync(root)
        return await self._entries(root, [name], ledger, now)

    async def page(
        self, root: str, prefix: str, cursor: str | None, ledger: Ledger, now: float
    ) -> Page:
        """Show the claims on names with a prefix, from one bucket on."""
        await self._sync(root)
        buckets = nodes.buckets(root)
        start = int(cursor or 0)
        entries: list[Entry] = []
        while start < len(buckets):
            stop = start + CHUNK
            for number, children in enumerate(await self._names(buckets[start:stop]), start):
                names = sorted(map(nodes.name_of, children))
                found = [name for name in names if name.startswith(prefix)]
                entries += await self._entries(root, found, ledger, now)
                if len(entries) >= PAGE and number + 1 < len(buckets):
                    return Page(entries, str(number + 1))
            start = stop
        return Page(entries, None)

    async def _sync(self, root: str) -> None:
        reply = self._session.send(self._colour, Sync(root))
        await self._session.settle(self._colour, reply, self._deadline)

    def _ask(self, paths: Sequence[str]) -> list[Reply]:
        return [self._session.send(self._colour, GetChildren(path, None)) for path in paths]

    async def _names(self, paths: Sequence[str]) -> list[list[str]]:
        found = []
        for reply in self._ask(paths):
            try:
                found.append(await self._session.settle(self._colour, reply, self._deadline))
            except NoNodeError:
                found.append([])
        return found

    async def _entries(
        self, root: str, names: Sequence[str], ledger: Ledger, now: float
    ) -> list[Entry]:
        entries: list[Entry] = []
        for start in range(0, len(names), CHUNK):
            chunk = names[start : start + CHUNK]
            folders = [nodes.folder(root, name) for name in chunk]
            for name, folder, reply in zip(chunk, folders, self._ask(folders), strict=True):
                line = await listed(self._colour, self._session, folder, reply, self._deadline)
                entries += await self._line(folder, name, line, ledger, now)
        return entries

    async def _line(
        self, folder: str, name: str, line: Line, ledger: Ledger, now: float
    ) -> list[Entry]:
        entries = []
        for start in range(0, len(line.nodes), CHUNK):
            chunk = line.nodes[start : start + CHUNK]
            replies = [
                self._session.send(self._colour, GetData(f"{folder}/{node.child}", None))
                for node in chunk
            ]
            for place, (node, reply) in enumerate(zip(chunk, replies, strict=True), start):
                try:
                    data, stat = await self._session.settle(self._colour, reply, self._deadline)
                except NoNodeError:
                    continue
                header = nodes.unpacked(data)
                mine = ledger.get(node.id)
                # Of another's claim only its process knows; it lasts for a ttl if that dies.
                left = header.ttl if mine is None else mine.deadline - now
                if left > 0.0:
                    entries.append(
                        Entry(
                            name=name,
                            id=node.id,
                            ticket=stat.czxid + header.base,
                            granted=place < line.granted,
                            weight=node.weight,
                            capacity=node.capacity,
                            left=left,
                            payload=header.payload,
                        )
                    )
        return entries
