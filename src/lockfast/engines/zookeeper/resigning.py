"""Removes claims for good: those of this engine, and those that an operator breaks."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Delete

from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.failures import SessionLost
from lockfast.engines.zookeeper.messages import remove
from lockfast.engines.zookeeper.own_claims import OwnClaim, OwnClaims
from lockfast.engines.zookeeper.pool import Pool
from lockfast.engines.zookeeper.recipe import Recipe
from lockfast.engines.zookeeper.renewals import CHUNK
from lockfast.engines.zookeeper.transport import Reply, Transport
from lockfast.errors import EngineError
from lockfast.port import Ask


class Resigning:
    """Resigns the claims of one engine."""

    def __init__(
        self, root: str, transport: Transport, own: OwnClaims, pool: Pool, recipe: Recipe
    ) -> None:
        """Resign claims on names below `root`."""
        self._root = root
        self._transport = transport
        self._own = own
        self._pool = pool
        self._recipe = recipe

    async def resign(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        """Remove claims, and return for each whether it was there, or why that is not known.

        A claim whose session has no connection takes all the time. Such claims come last.
        """
        order = sorted(range(len(asks)), key=lambda place: self._stuck(asks[place]))
        removed: list[bool | Exception] = [False for _ in asks]
        for start in range(0, len(asks), CHUNK):
            places = order[start : start + CHUNK]
            answers = await self._resign([asks[place] for place in places], deadline)
            for place, answer in zip(places, answers, strict=True):
                removed[place] = answer
        return removed

    def _stuck(self, ask: Ask) -> bool:
        """Return whether a claim can be removed only by a session that has no connection now."""
        folder = nodes.folder(self._root, ask.shape.name)
        mine = self._own.get(ask.id) or self._own.dying(ask.id, folder)
        return mine is not None and not mine.session.usable

    async def _resign(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        """Remove a chunk of claims. The deletions of known nodes are sent before the first answer
        is awaited.
        """
        for folder in {nodes.folder(self._root, ask.shape.name) for ask in asks}:
            await self._recipe.prune(folder, deadline)
        known = [self._own.get(ask.id) for ask in asks]
        ways = []
        for mine in known:
            reply = None
            if mine is not None:
                mine.gone = True  # no push, even if it is granted meanwhile
            if mine is not None and mine.child is not None and mine.session.usable:
                path = f"{mine.folder}/{mine.child}"
                reply = mine.session.send(self._transport, Delete(path, -1))
            ways.append(reply)
        removed: list[bool | Exception] = []
        for ask, mine, reply in zip(asks, known, ways, strict=True):
            there = False
            try:
                there = await self._remove(ask, mine, reply, deadline)
            except (NoNodeError, SessionLost):
                there = False
            except EngineError as error:
                removed.append(error)
                continue
            if mine is not None:
                self._own.take(mine)
            removed.append(there)
        return removed

    async def _remove(
        self, ask: Ask, mine: OwnClaim | None, reply: Reply | None, deadline: float
    ) -> bool:
        if mine is None:
            return await self._break(ask, deadline)
        if reply is None:
            await mine.session.ready(deadline)
            return await remove(self._transport, mine, deadline, foreign=True)
        await mine.session.settle(self._transport, reply, deadline)
        return True

    async def _break(self, ask: Ask, deadline: float) -> bool:
        """Remove a claim that is not, or no longer, one of our own."""
        folder = nodes.folder(self._root, ask.shape.name)
        dying = self._own.dying(ask.id, folder)
        if dying is not None:
            # It expired, and `prune` could not remove it. Only its own session can tell that no
            # copy of it is still under way, so this waits for that session (see `remove`).
            await self._recipe.bury(dying, deadline)
        with self._pool.any() as session:
            await session.ready(deadline)
            stranger = OwnClaim(ask, folder, session, 0.0)
            return await remove(self._transport, stranger, deadline, foreign=True)
