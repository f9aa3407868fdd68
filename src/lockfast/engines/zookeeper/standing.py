"""Reads where a claim of this client stands in its queue, and sets the watch that it needs."""

from __future__ import annotations

from collections.abc import Callable

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import GetData

from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.messages import glanced
from lockfast.engines.zookeeper.nodes import Line, Node
from lockfast.engines.zookeeper.own_claims import OwnClaim, OwnClaims
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.transport import Transport
from lockfast.port import Blocker, Standing

HEADS = 1024  # heads of queues that are remembered, because a node's data never changes


class Look:
    """Reports standings. Reads from the nodes what a list of children does not contain."""

    def __init__(
        self,
        transport: Transport,
        own: OwnClaims,
        worth: Callable[[Session, str], None],
    ) -> None:
        """`worth` is called with session and folder if a queue changed while it was read."""
        self._transport = transport
        self._now = transport.now
        self._own = own
        self._worth = worth
        self._heads: dict[str, Blocker] = {}

    async def identified(self, mine: OwnClaim, line: Line, deadline: float) -> bool:
        """Return whether a claim is in the queue. Find its node and ticket if they are unknown.

        A node with its id that belongs to another session does not count. That session may end at
        any moment, and the node with it.
        """
        if mine.child is not None:
            return line.place(mine.child) is not None
        session, folder = mine.session, mine.folder
        for node in line.found(mine.id):
            reply = session.send(self._transport, GetData(f"{folder}/{node.child}", None))
            try:
                data, stat = await session.settle(self._transport, reply, deadline)
            except NoNodeError:
                continue
            if stat.ephemeralOwner == session.id:
                mine.ticket = self._remember(folder, node, data, stat.czxid).ticket
                mine.child = node.child
                return True
        return False

    async def refused(self, session: Session, folder: str, line: Line, deadline: float) -> Standing:
        """Return the standing of a claim that does not fit and is not to wait: it is not kept."""
        blocker = None
        if line.nodes:
            try:
                blocker = await self._head(session, folder, line.nodes[0], deadline)
            except NoNodeError:
                blocker = None
        return Standing(0, granted=False, left=0.0, ahead=len(line.nodes), blocker=blocker)

    async def standing(
        self, mine: OwnClaim, line: Line, sent: float, deadline: float
    ) -> Standing | None:
        """Return a claim's standing, and watch the claims that it waits for. None: it is gone.

        A caller that passes on a grant must note it with `OwnClaims.tell`.
        """
        session, folder = mine.session, mine.folder
        while True:
            place = line.place(mine.child or "")
            if place is None:
                self._own.take(mine)
                return None
            granted = place < line.granted
            try:
                if not granted:
                    await self.watch(mine, line, place, deadline)
                head = await self._head(session, folder, line.nodes[0], deadline)
                break
            except NoNodeError:  # the head was deleted after the list was made
                line = await glanced(self._transport, session, folder, deadline)
        until = min(mine.deadline, session.anchor + session.timeout)
        return Standing(
            ticket=mine.ticket,
            granted=granted,
            left=int((until - sent) * 1e6) / 1e6,  # rounded down, so never too long
            ahead=place,
            behind=len(line.nodes) - max(line.granted, place + 1),
            floor=head.ticket,
            blocker=None if granted else head,
            recheck=self._recheck(line) if place == line.granted else None,
        )

    def _recheck(self, line: Line) -> float | None:
        """Return the seconds until the next claim of a queue expires, if all of them are our own.
        Otherwise return None, because a watch reports the end of other clients' claims.
        """
        ours = [self._own.get(node.id) for node in line.nodes]
        known = [mine.deadline for mine in ours if mine is not None]
        return min(known) - self._now() if len(known) == len(ours) else None

    async def watch(self, mine: OwnClaim, line: Line, place: int, deadline: float) -> None:
        """Watch the nodes of which one must be deleted before a waiter can be granted.

        A waiter with a single node ahead of it first watches its own node too. ZooKeeper reports
        changes in their order. So if an operator removes the waiter and the node ahead of it goes
        later, the waiter is not granted.
        """
        session, folder = mine.session, mine.folder
        alone = line.nodes[0] if place == 1 else None
        mine.obstacle = None
        replies = []
        for node in ([line.nodes[1]] if alone else []) + line.obstacles(place):
            path = f"{folder}/{node.child}"
            if path not in session.watched:
                session.watched.add(path)
                request = GetData(path, session.watcher)
                replies.append((node, path, session.send(self._transport, request)))
        for node, path, reply in replies:
            try:
                data, stat = await session.settle(self._transport, reply, deadline)
            except NoNodeError:  # it was deleted before the watch was set
                session.watched.discard(path)
                mine.gone = mine.gone or node.child == mine.child
                self._worth(session, folder)
            else:
                self._remember(folder, node, data, stat.czxid)
        # Only now are all watches set. Until then a deletion makes the listener read the queue,
        # which takes longer.
        if alone is not None:
            mine.obstacle = f"{folder}/{alone.child}"

    async def _head(self, session: Session, folder: str, node: Node, deadline: float) -> Blocker:
        mine = self._own.get(node.id)
        if mine is not None and mine.child == node.child:
            return Blocker(mine.id, mine.ticket, mine.ask.payload)
        known = self._heads.get(f"{folder}/{node.child}")
        return known or await self._read(session, folder, node, deadline)

    async def _read(self, session: Session, folder: str, node: Node, deadline: float) -> Blocker:
        reply = session.send(self._transport, GetData(f"{folder}/{node.child}", None))
        data, stat = await session.settle(self._transport, reply, deadline)
        return self._remember(folder, node, data, stat.czxid)

    def _remember(self, folder: str, node: Node, data: bytes, zxid: int) -> Blocker:
        header = nodes.unpacked(data)
        if len(self._heads) >= HEADS:
            self._heads.clear()
        found = self._heads[f"{folder}/{node.child}"] = Blocker(
            node.id, zxid + header.base, header.payload
        )
        return found
