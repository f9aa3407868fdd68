"""Standings of this client's claims: reads their queues, and has waiters watch them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lockfast.engines.etcd import keys
from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.listener import Listener
from lockfast.engines.etcd.own_claim import OwnClaim
from lockfast.engines.etcd.own_claims import OwnClaims
from lockfast.engines.etcd.snapshot import Seen, read_queues
from lockfast.engines.etcd.standing import blocker, granted, standing
from lockfast.engines.etcd.waiters import Wait
from lockfast.errors import EngineError, EngineRefused
from lockfast.port import Kind, Standing, Wake


class Places:
    """The places of this client's claims in their queues."""

    def __init__(self, own: OwnClaims, listener: Listener, base: int) -> None:
        """Use these parts of the engine. `base` is added to every ticket."""
        self._own = own
        self._listener = listener
        self.base = base

    def _ends(self, row: Row, now: float) -> float:
        """Return in how many seconds, at most, a claim ends unless it is renewed. If another
        client's claim ends later, the watch reports that.
        """
        mine = self._own.of(row)
        return mine.until - now if mine is not None else row.ttl

    def among(self, mine: OwnClaim, queue: Sequence[Row], revision: int, now: float) -> Standing:
        """Return the standing of a claim in a queue that contains it. If it waits, watch for it.
        Raise `EngineRefused` if it waits behind a claim that cannot be read.
        """
        place = next(i for i, row in enumerate(queue) if row.key == mine.key)
        mine.alone = len(queue) == 1
        found = standing(
            queue, place, mine.until - now, self.base, lambda row: self._ends(row, now)
        )
        if found.granted:
            self._listener.unwatch([mine.id])
        else:
            kind = mine.form.shape.kind
            foreign = next((row for row in queue[: place + 1] if row.kind is None), None)
            if foreign is not None:
                raise keys.unreadable(foreign)
            # A claim of another kind has no room at all: see `granted`.
            ahead = [
                (row.key, row.revision, row.weight, row.capacity if row.kind is kind else 0)
                for row in (queue[place - 1 : place] if kind is Kind.LOCK else queue[:place])
            ]
            self._listener.watch(Wait(mine.row(), ahead, revision, sure=place == 1))
        return found

    def behind(  # noqa: PLR0913, PLR0917  # what is known of a long queue
        self,
        mine: OwnClaim,
        head: Row,
        ahead: int,
        before: tuple[bytes, int],
        revision: int,
        now: float,
    ) -> Standing:
        """Return the standing of a queued claim on a lock from the head and the length of its
        queue and the claim before it.
        """
        self._listener.watch(Wait(mine.row(), [(*before, 1, 1)], revision, sure=ahead == 1))
        left = mine.until - now
        return Standing(
            ticket=mine.revision + self.base,
            granted=False,
            left=left,
            ahead=ahead,
            floor=head.revision + self.base,
            blocker=blocker(head, self.base),
            recheck=min(self._ends(head, now), left) if ahead == 1 else None,
        )

    async def look(
        self, mines: Sequence[OwnClaim], now: float, deadline: float, *, local: bool = False
    ) -> list[Standing | EngineRefused | None]:
        """Read the queues of claims and return their standings, as `tell` does."""
        forms = [mine.form for mine in mines]
        seen = await read_queues(self._own.ask, forms, deadline, local=local)
        return self.tell(mines, seen, now, local=local)

    def tell(
        self, mines: Sequence[OwnClaim], seen: Seen, now: float, *, local: bool = False
    ) -> list[Standing | EngineRefused | None]:
        """Return the standings of claims in queues that were read, or that are known to contain
        nothing else; None for one not found, and an error for one that waits behind a claim that
        cannot be read. One that another engine has adopted has no time left here.
        """
        standings: list[Standing | EngineRefused | None] = []
        for mine in mines:
            queue = seen.queues.get(mine.form.prefix)
            if queue is None:
                ticket = mine.revision + self.base
                left = mine.until - now
                standings.append(Standing(ticket, granted=True, left=left, floor=ticket))
            elif (row := next((row for row in queue if mine.stored_as(row)), None)) is not None:
                if row.epoch > mine.epoch:
                    held = row in queue[: granted(queue)]
                    standings.append(Standing(row.revision + self.base, granted=held, left=0.0))
                    continue
                mine.mod = max(mine.mod, row.mod)  # a put of this engine was not answered
                try:
                    standings.append(self.among(mine, queue, seen.revision, now))
                except EngineRefused as error:
                    standings.append(error)
            else:
                if not local:  # a member that lags behind may not have it yet
                    self.gone([mine.id])
                standings.append(None)
        return standings

    async def look_again(self, wait: Wait, now: float) -> list[Wake]:
        """Read the queue again after the claim before a waiter, which was not the head, is deleted.
        Return a wake if the waiter is granted, or if that is not certain.

        The member that reported the deletion answers alone, without a majority. Its data has the
        waiter's claim in it, so it can only overstate what is ahead.
        """
        mine = self._own.get(wait.id)
        if mine is None:
            return []
        try:
            (said,) = await self.look([mine], now, now + 1.0, local=True)
        except EngineError:
            return [Wake(wait.id, granted=False)]
        if not isinstance(said, Standing):
            return [Wake(wait.id, granted=False)]
        if not said.granted:
            return []
        return [Wake(wait.id, granted=True, floor=said.floor)]

    def gone(self, ids: Iterable[str]) -> None:
        """Forget claims that etcd no longer has, and watch no longer for them."""
        ids = list(ids)
        for id_ in ids:
            self._own.drop(id_)
        self._listener.unwatch(ids)

    async def prune(self, deadline: float) -> None:
        """Delete the claims whose time is over, and watch no longer for them."""
        overs = self._own.expire()
        self._listener.unwatch(overs)  # before some are deleted, and others are not
        await self._own.prune(overs, deadline)
