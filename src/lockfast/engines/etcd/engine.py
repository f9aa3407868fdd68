"""The etcd engine: implements the port with transactions, sessions and watches."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from lockfast.engines.etcd import break_records, guarantees, inspection
from lockfast.engines.etcd.claim_transaction import form_of
from lockfast.engines.etcd.claiming import MOST, Attempt, together
from lockfast.engines.etcd.listener import Listener
from lockfast.engines.etcd.own_claims import OwnClaims
from lockfast.engines.etcd.queues import Places
from lockfast.engines.etcd.sessions import Sessions
from lockfast.engines.etcd.transport import Transport
from lockfast.engines.one_by_one import singly
from lockfast.errors import EngineError, EngineRefused
from lockfast.guarantees import Guarantees
from lockfast.port import CLOSING, EVERYONE, Ask, Page, Standing, Wake

log = logging.getLogger("lockfast")

CALM = 0.1  # seconds before chores that have failed are tried again


class EtcdEngine:
    """The etcd engine of one client."""

    def __init__(self, transport: Transport, base: int) -> None:
        """Connect to nothing yet. The engine adds `base` to every ticket."""
        self._transport = transport
        self._now = transport.now
        self._base = base
        self._sessions = Sessions(transport, base)
        self._own = OwnClaims(transport, self._sessions)
        self._listener = Listener(transport, base)
        self._places = Places(self._own, self._listener, base)
        self._begun = self._told = False

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Append the claim, and return its standing: one round trip, once there is a session."""
        now = self._now()
        own = self._own
        if now > ask.not_after or own.dead(ask.id):
            return None
        await self._begin(deadline)
        mine = own.get(ask.id)
        if mine is not None:  # an earlier copy was answered
            (said,) = await self._places.look([mine], now, deadline)
            if isinstance(said, EngineRefused):
                raise said
            return said if own.get(ask.id) is mine else None
        form = form_of(ask.shape)
        return await Attempt(
            *(ask, form, self._sessions, own, self._places, self._base, now, deadline)
        ).make()

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Append several claims: one transaction for all that are free, the rest one by one."""
        now = self._now()
        await self._begin(deadline)
        parts = (self._sessions, self._own, self._places, self._base, now, deadline)
        new = [ask for ask in asks if now <= ask.not_after and not self._own.knows(ask.id)]
        put = await together([Attempt(ask, form_of(ask.shape), *parts) for ask in new[:MOST]])
        rest = [ask for ask in asks if ask.id not in put]
        said = iter(await singly(self.claim, rest, deadline))
        return [put[ask.id] if ask.id in put else next(said) for ask in asks]

    async def _begin(self, deadline: float) -> None:
        """Delete expired claims. At the first claim, wake `listen`, which has had nothing to do."""
        await self._prune(deadline)
        if not self._begun:
            self._begun = True
            self._transport.rouse()

    async def _prune(self, deadline: float) -> None:
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
                "etcd refused to delete expired claims, and waiters are blocked by them: %s", error
            )
        except EngineError:
            return

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend the claims, and return their standings.

        One keepalive extends all claims that share a lease. One read of their queues follows, and
        proves that the present leader has extended the lease: see `session`.
        """
        now = self._now()
        own, places = self._own, self._places
        await self._prune(deadline)
        known = {ask.id: mine for ask in asks if (mine := own.get(ask.id)) is not None}
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
            if isinstance(said, Standing) and said.granted
        }
        failed = await own.promote(risen, now, deadline)
        places.gone(id_ for id_, error in failed.items() if error is None)
        for mine, said in risen.items():
            standings[mine.id] = failed.get(mine.id) or said._replace(left=mine.until - now)
        # A claim that was deleted after its queue was read is gone, though the read shows it.
        return [standings.get(ask.id) if own.get(ask.id) else None for ask in asks]

    async def resign(self, asks: Sequence[Ask], deadline: float, *, doubt: bool) -> list[bool]:
        """Remove the claims for good, in one round trip."""
        own = self._own
        if doubt:
            own.bury(asks)
        await self._prune(deadline)
        removed = await own.delete(
            [(ask.id, form_of(ask.shape).key(ask.id)) for ask in asks], deadline
        )
        self._places.gone(ask.id for ask in asks)
        return removed

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Do nothing: no request can be ordered behind a claim under way. The heart resigns it."""

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait until a push, a `rouse` or the deadline, and return the pushes. Meanwhile, keep the
        sessions alive and delete the claims that nobody renews.
        """
        if self._begun and not self._told:
            self._told = True
            # Once is enough: a watch begins where its snapshot ended, so later no push is missed.
            return [EVERYONE]
        wakes, chore = await self._tend()
        if not wakes:
            until = chore if deadline is None else min(chore, deadline)
            await self._transport.pause(None if until == math.inf else until)
            if deadline is None or self._now() < deadline:
                wakes, _ = await self._tend()
        return wakes

    async def _tend(self) -> tuple[list[Wake], float]:
        """Read pushes, and do the chores that are due. Return the pushes and the next due time."""
        wakes: list[Wake] = []
        try:
            wakes, unsure = await self._listener.hear()
            for wait in unsure:
                wakes += await self._places.look_again(wait, self._now())
            if wakes:
                return wakes, 0.0
            now = self._now()
            await self._prune(now + 1.0)
            await self._sessions.tend(now)
        except EngineError:
            return wakes, self._now() + CALM
        return wakes, min(self._sessions.next(), self._own.soonest, self._listener.next())

    def rouse(self) -> None:
        """Make `listen` return now."""
        self._transport.rouse()

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Return the claims on one name, or the next five hundred on names with a prefix."""
        deadline = self._now() + 5.0
        if exact:
            return await inspection.one(self._transport, self._own, self._base, names, deadline)
        return await inspection.page(
            self._transport, self._own, self._base, names, cursor, deadline
        )

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        """Keep the record of a break, in two round trips."""
        await break_records.keep(self._transport, name, claim, record, deadline)

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Return the records of a name, the newest first."""
        return await break_records.read(self._transport, name, deadline)

    async def guarantees(self, deadline: float) -> Guarantees:
        """Ask the members how they are set up, and return what that guarantees."""
        return await guarantees.ask(self._transport, deadline)

    def reset(self) -> None:
        """Forget every connection, in a forked child."""
        self._transport.reset()

    async def close(self) -> None:
        """Revoke the leases, if no claim is on them any more, and close the connections."""
        try:
            if not len(self._own):
                await self._sessions.revoke(self._now() + CLOSING)
        except EngineError:
            pass  # the leases expire by themselves
        finally:
            self._listener.close()
            await self._transport.close()
