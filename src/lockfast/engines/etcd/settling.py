"""Settles claims that are in etcd: moves the granted ones to the lease of their ttl, together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.own_claim import OwnClaim
from lockfast.engines.etcd.own_claims import OwnClaims
from lockfast.engines.etcd.queues import Places
from lockfast.engines.etcd.standing import granted
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.port import Standing


class Entered(NamedTuple):
    """A claim that is in etcd, and its queue as it was read with the claim in it."""

    mine: OwnClaim
    queue: list[Row]
    at: int
    """The revision of that read."""

    def granted(self) -> bool:
        """Return whether the rule grants the claim."""
        return self.mine.key in [row.key for row in self.queue[: granted(self.queue)]]


async def settle(
    claims: Sequence[Entered], own: OwnClaims, places: Places, now: float, deadline: float
) -> list[Standing | EngineError | None]:
    """Return the standings of the claims. If granted, first move them to the lease of their ttl, in
    one request. None: the claim has ended meanwhile, for example because an operator broke it.
    """
    risen = [each.mine for each in claims if each.granted()]
    failed = await own.promote(risen, now, deadline)
    said: list[Standing | EngineError | None] = []
    for mine, queue, at in claims:
        error = failed.get(mine.id)
        if mine.id not in failed:
            try:
                said.append(places.among(mine, queue, at, now))
            except EngineRefused as refusal:
                said.append(refusal)
        elif isinstance(error, EngineUnavailable):
            # The claim was put before, so the caller must not take the error to mean that nothing
            # was sent. It would leave the claim to hold a permit that nobody uses.
            unsure = EngineUnavailable(error.message, sent=True)
            unsure.__cause__ = error
            said.append(unsure)
        else:
            places.gone([mine.id])
            if error is not None:
                await own.reject(mine.id, mine.over(sure=False), deadline)
            said.append(error)
    return said
