"""Reads the claims on one name or on many for `inspect`, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import GetChildren, GetData, Sync

from lockfast.core.record import other_format
from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.messages import listed
from lockfast.engines.zookeeper.nodes import Line
from lockfast.engines.zookeeper.own_claims import OwnClaims
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.transport import Reply, Transport
from lockfast.port import Entry, Page
from lockfast.runtime.base import Clock

PAGE = 500  # names after which no further bucket is read, and requests that are under way at once
T = TypeVar("T")


class Show:
    """Reads claims through one session, until one deadline."""

    def __init__(self, transport: Transport, session: Session, deadline: float) -> None:
        """Read through this session."""
        self._transport = transport
        self._session = session
        self._deadline = deadline

    async def one(self, root: str, name: str, own: OwnClaims) -> list[Entry]:
        """Return the claims on one name. Raise `EngineRefused` if its head is in another format."""
        sync = self._session.send(self._transport, Sync(root))
        entries = await self._entries(root, [name], own, exact=True)
        await self._settle(sync)
        return entries

    async def page(self, root: str, prefix: str, cursor: str | None, own: OwnClaims) -> Page:
        """Return the claims on names with a prefix, beginning at the bucket in `cursor`. This takes
        three round trips, one each for the names, for their claims and for the claims' data. Claims
        in another format are left out.
        """
        sync = self._session.send(self._transport, Sync(root))
        buckets = nodes.buckets(root)
        number = int(cursor or 0)
        names: list[str] = []
        replies = self._ask(buckets[number:])
        await self._settle(sync)
        for reply in replies:
            number += 1
            every = sorted(map(nodes.name_of, await self._settle(reply) or ()))
            names += [name for name in every if name.startswith(prefix)]
            if len(names) >= PAGE:
                break
        entries = await self._entries(root, names, own, exact=False)
        return Page(entries, str(number) if number < len(buckets) else None)

    def _ask(self, paths: Sequence[str]) -> list[Reply]:
        return [self._session.send(self._transport, GetChildren(path, None)) for path in paths]

    async def _settle(self, reply: Reply) -> Any:  # noqa: ANN401  # see Reply
        """Wait for a reply and return it; None if there is no such node."""
        try:
            return await self._session.settle(self._transport, reply, self._deadline)
        except NoNodeError:
            return None

    async def _entries(
        self, root: str, names: Sequence[str], own: OwnClaims, *, exact: bool
    ) -> list[Entry]:
        found: list[tuple[str, str, Line, int]] = []
        for some in _chunks(names):
            folders = [nodes.folder(root, name) for name in some]
            for name, folder, reply in zip(some, folders, self._ask(folders), strict=True):
                line = await listed(self._transport, self._session, folder, reply, self._deadline)
                if exact and line.nodes and line.nodes[0].kind is None:
                    raise other_format(name, line.nodes[0].format)
                found += [(name, folder, line, place) for place in range(len(line.nodes))]
        entries = []
        for part in _chunks(found):
            replies = [
                self._session.send(
                    self._transport, GetData(f"{folder}/{line.nodes[place].child}", None)
                )
                for _, folder, line, place in part
            ]
            for (name, _, line, place), reply in zip(part, replies, strict=True):
                told = await self._settle(reply)
                if told is not None:
                    entries += _entry(name, line, place, told, own, self._transport.now)
        return entries


def _chunks(every: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split what is requested at once: more would overflow the server's queue of requests."""
    return (every[start : start + PAGE] for start in range(0, len(every), PAGE))


def _entry(  # noqa: PLR0913, PLR0917  # all that is known of a claim
    name: str, line: Line, place: int, told: tuple[bytes, Any], own: OwnClaims, now: Clock
) -> list[Entry]:
    """Return a list with the claim's entry. It is empty if the claim has expired, or is in another
    format.
    """
    node, header = line.nodes[place], nodes.unpacked(told[0])
    if node.kind is None:
        return []
    mine = own.get(node.id)
    # Only its own process knows the deadline of another client's claim. The claim lasts for a ttl
    # if that process dies. For a claim of ours, the clock is read after the deadline, which a
    # renewal may have moved while the answers were under way.
    left = header.ttl if mine is None else mine.deadline - now()
    if left <= 0.0:
        return []
    return [
        Entry(
            name=name,
            id=node.id,
            ticket=told[1].czxid + header.base,
            granted=place < line.granted,
            kind=node.kind,
            weight=node.weight,
            capacity=node.capacity,
            left=left,
            payload=header.payload,
        )
    ]
