"""Renewals of this client's claims, by the transport of the engine or of its stand-in."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lockfast.engines.etcd.adoption import Adoption, Moved
from lockfast.engines.etcd.own_claim import OwnClaim
from lockfast.engines.etcd.own_claims import OwnClaims
from lockfast.engines.etcd.queues import Places
from lockfast.errors import EngineError, EngineRefused
from lockfast.port import Ask, Standing
from lockfast.runtime.base import Clock

log = logging.getLogger("lockfast")


class Renewals:
    """Renews claims, and deletes those whose time is over."""

    def __init__(self, own: OwnClaims, places: Places, clock: Clock) -> None:
        """Use these parts of an engine."""
        self._own = own
        self._places = places
        self._now = clock

    async def prune(self, deadline: float) -> None:
        """Delete this client's claims whose time is over.

        They are not renewed any more, even if the deletion fails. It is then tried again later, and
        its failure keeps no other claim from being made or renewed.
        """
        if self._now() < self._own.soonest:
            return
        try:
            await self._places.prune(deadline)
        except EngineRefused as error:
            log.warning(
                "etcd rejects the removal of expired locks, which block their waiters: %s", error
            )
        except EngineError:
            return

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend the claims, and return their standings.

        One keepalive extends all claims that share a lease. One transaction follows, which compares
        their queues or reads them, and proves that the present leader has extended the lease: see
        `session`.
        """
        now = self._now()
        own, places = self._own, self._places
        await self.prune(deadline)
        known: dict[str, OwnClaim] = {}
        moved: list[Ask] = []
        late: dict[str, Standing] = {}
        for ask in asks:
            mine = own.get(ask.id)
            if ask.epoch > (mine.epoch if mine is not None else 0):
                moved.append(ask)
            elif mine is not None and ask.epoch == mine.epoch:
                known[ask.id] = mine
            elif mine is not None:
                late[ask.id] = Standing(ask.ticket, granted=ask.granted, left=0.0)
        seen = await own.extend(list(known.values()), now, deadline)
        alive = [mine for mine in known.values() if not mine.session.dead]
        places.gone(mine.id for mine in known.values() if mine.session.dead)
        looked = places.tell(alive, seen, now)
        standings: dict[str, Standing | Exception] = {
            mine.id: said for mine, said in zip(alive, looked, strict=True) if said is not None
        }
        risen = {
            mine: said
            for mine, said in zip(alive, looked, strict=True)
            if isinstance(said, Standing) and said.granted and said.left > 0.0
        }
        failed = await own.promote(risen, now, deadline)
        places.gone(id_ for id_, error in failed.items() if error is None)
        for mine, said in risen.items():
            standings[mine.id] = failed.get(mine.id) or said._replace(left=mine.until - now)
        # A claim that was deleted after its queue was read is gone, though the read shows it.
        answers: dict[str, Standing | Exception | None] = {
            id_: standings.get(id_) if own.get(id_) else None for id_ in known
        }
        here = [Moved(ask, ask.granted) for ask in moved if not own.dead(ask)]
        if here:
            answers |= await Adoption(here, own, places, now, deadline).make()
        answers |= late
        return [answers.get(ask.id) for ask in asks]
