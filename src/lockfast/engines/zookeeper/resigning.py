"""Removes claims for good: those of this client, and those that an operator breaks."""

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
from lockfast.engines.zookeeper.transport import Transport
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

    async def resign(self, asks: Sequence[Ask], deadline: float) -> list[bool]:
        """Remove claims, and return for each whether it was there.

        The deletions of known nodes are sent before the first answer is awaited. So a claim whose
        session has no connection holds up no other.
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
        removed = []
        for ask, mine, reply in zip(asks, known, ways, strict=True):
            there = False
            try:
                if mine is None:
                    there = await self._break(ask, deadline)
                elif reply is None:
                    await mine.session.ready(deadline)
                    there = await remove(self._transport, mine, deadline)
                else:
                    await mine.session.settle(self._transport, reply, deadline)
                    there = True
            except (NoNodeError, SessionLost):
                there = False
            if mine is not None:
                self._own.take(mine)
            removed.append(there)
        return removed

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
            return await remove(self._transport, OwnClaim(ask, folder, session, 0.0), deadline)
