"""The etcd engine: implements the port with transactions, sessions and watches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lockfast.engines.etcd import break_records, guarantees, inspection
from lockfast.engines.etcd.claim_batch import MOST, ClaimBatch
from lockfast.engines.etcd.claim_transaction import form_of
from lockfast.engines.etcd.claiming import Attempt
from lockfast.engines.etcd.listener import Listener
from lockfast.engines.etcd.own_claims import OwnClaims
from lockfast.engines.etcd.queues import Places
from lockfast.engines.etcd.renewals import Renewals
from lockfast.engines.etcd.sending import Sender
from lockfast.engines.etcd.sessions import Sessions
from lockfast.engines.etcd.stand_in import StandIn
from lockfast.engines.etcd.threads import ThreadTransport
from lockfast.engines.etcd.transport import Transport
from lockfast.engines.one_by_one import singly
from lockfast.errors import EngineError, EngineRefused
from lockfast.guarantees import Guarantees
from lockfast.port import CLOSING, EVERYONE, Ask, Page, Standing, Wake

CALM = 0.1  # seconds before chores that have failed are tried again


class EtcdEngine:
    """The etcd engine of one client."""

    batch = MOST

    def __init__(
        self, transport: Transport, base: int, blocking: Callable[[], ThreadTransport]
    ) -> None:
        """Connect to nothing yet. The engine adds `base` to every ticket. `blocking` makes the
        transport of its stand-in.
        """
        self._transport = transport
        self._now = transport.now
        self._base = base
        self._sessions = Sessions(transport, base)
        self._own = OwnClaims(transport, self._sessions)
        self._sender = Sender(transport, self._own)
        self._listener = Listener(transport, base)
        self._places = Places(self._own, self._listener, base)
        self._renewals = Renewals(self._own, self._places, transport.now)
        self._blocking = blocking
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
        return await self._attempt(ask, now, deadline).make()

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Append several claims, in rounds: one request for all whose names are free, and a few
        more if some are not.
        """
        if len(asks) == 1:
            return await singly(self.claim, asks, deadline)
        now, own = self._now(), self._own
        await self._begin(deadline)
        said: dict[str, Standing | Exception | None] = {}
        known = [mine for ask in asks if (mine := own.get(ask.id)) is not None]
        if known:  # earlier copies were answered
            looked = await self._places.look(known, now, deadline)
            for mine, each in zip(known, looked, strict=True):
                said[mine.id] = each if own.get(mine.id) is mine else None
        new = [self._attempt(ask, now, deadline) for ask in asks if ask.id not in said]
        for start in range(0, len(new), MOST):
            batch = ClaimBatch(
                *(new[start : start + MOST], self._sessions, own, self._sender, self._places),
                *(now, deadline),
            )
            try:
                said |= await batch.make()
            except EngineError as error:
                if not said:
                    raise
                said |= batch.fail(error)
        return [said[ask.id] for ask in asks]

    def _attempt(self, ask: Ask, now: float, deadline: float) -> Attempt:
        return Attempt(
            *(ask, form_of(ask.shape), self._sessions, self._own, self._sender, self._places),
            *(self._base, now, deadline),
        )

    async def _begin(self, deadline: float) -> None:
        """Delete expired claims. At the first claim, wake `listen`, which has had nothing to do."""
        await self._renewals.prune(deadline)
        if not self._begun:
            self._begun = True
            self._transport.rouse()

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend the claims, and return their standings."""
        return await self._renewals.renew(asks, deadline)

    def stand_in(self) -> StandIn:
        """Return a blocking renewer of this engine's claims, with a connection of its own."""
        return StandIn(self._blocking(), self._sessions, self._own, self._listener, self._base)

    async def resign(self, asks: Sequence[Ask], deadline: float, *, doubt: bool) -> list[bool]:
        """Remove the claims for good, in one round trip."""
        own = self._own
        if doubt:
            own.bury(asks)
        await self._renewals.prune(deadline)
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
            await self._renewals.prune(now + 1.0)
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
