"""The etcd engine: implements the port with transactions, sessions and watches."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

from lockfast.engines import wall_clock
from lockfast.engines.etcd import break_records, guarantees, inspection
from lockfast.engines.etcd.claim_batch import MOST, ClaimBatch, Luck
from lockfast.engines.etcd.claim_transaction import form_of
from lockfast.engines.etcd.claiming import Attempt
from lockfast.engines.etcd.listener import Listener
from lockfast.engines.etcd.own_claims import OwnClaims
from lockfast.engines.etcd.parts import parts
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
from lockfast.port import CLIENT, CLOSING, Ask, Page, Standing, Wake, everyone_of

CALM = 0.1  # seconds before chores that have failed are tried again


class EtcdEngine:
    """The etcd engine of one client, or of the clients of one replica of the service."""

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
        self._luck = Luck()
        self._places = Places(self._own, self._listener, base)
        self._renewals = Renewals(self._own, self._places, transport.now)
        self._blocking = blocking
        self._heard: dict[str, None] = {}
        self._unheard: deque[str] = deque()
        """Clients that are heard since the last `listen`."""

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Append the claim, and return its standing: one round trip, once there is a session."""
        now = self._now()
        own = self._own
        if now > ask.not_after or own.dead(ask):
            return None
        await self._renewals.prune(deadline)
        mine = own.get(ask.id)
        if mine is not None and mine.epoch >= ask.epoch:  # an earlier copy was answered
            (said,) = await self._places.look([mine], now, deadline)
            if isinstance(said, EngineRefused):
                raise said
            if said is None or own.get(ask.id) is not mine:
                return None
            return said if mine.epoch == ask.epoch else said._replace(left=0.0)
        made = await self._attempt(ask, now, deadline).make()
        return None if own.dead(ask) else made  # resigned or ended meanwhile

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Append several claims, in rounds: one request for all whose names are free, and a few
        more if some are not.
        """
        if len(asks) == 1:
            return await singly(self.claim, asks, deadline)
        now, own = self._now(), self._own
        await self._renewals.prune(deadline)
        said: dict[str, Standing | Exception | None] = {}
        known = [
            (ask, mine)
            for ask in asks
            if (mine := own.get(ask.id)) is not None and mine.epoch >= ask.epoch
        ]
        if known:  # earlier copies were answered
            looked = await self._places.look([mine for _, mine in known], now, deadline)
            for (ask, mine), each in zip(known, looked, strict=True):
                late = isinstance(each, Standing) and mine.epoch > ask.epoch
                there = each._replace(left=0.0) if isinstance(each, Standing) and late else each
                said[mine.id] = there if own.get(mine.id) is mine else None
        new = [self._attempt(ask, now, deadline) for ask in asks if ask.id not in said]
        # A claim's payload is in its transaction twice: for a free name, and for one that is taken.
        for part in parts(new, MOST, lambda attempt: 2 * len(attempt.payload)):
            batch = ClaimBatch(
                *(part, self._sessions, own, self._sender, self._places, self._luck),
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

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend the claims, and return their standings."""
        return await self._renewals.renew(asks, deadline)

    def stand_in(self) -> StandIn:
        """Return a blocking renewer of this engine's claims, with a connection of its own."""
        return StandIn(self._blocking(), self._sessions, self._own, self._listener, self._base)

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        """Remove the claims for good: up to a hundred in one round trip."""
        own = self._own
        if doubt:
            own.bury(asks)
        await self._renewals.prune(deadline)
        removed = await own.resign(asks, deadline, doubt=doubt)
        answered = zip(asks, removed, strict=True)
        self._places.gone(ask.id for ask, said in answered if isinstance(said, bool))
        return removed

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Do nothing: no request can be ordered behind a claim under way. The heart resigns it."""

    def hear(self, client: str, *, on: bool) -> None:
        """Start or stop returning the wakes of a client. etcd is not told: each waiter has a watch,
        which begins where its snapshot ended. So only what came before this call may be missed.
        """
        if not on:
            self._heard.pop(client, None)
        elif client not in self._heard:
            self._heard[client] = None
            self._unheard.append(client)
            self._transport.rouse()

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait until a push, a `rouse` or the deadline, and return the pushes. Meanwhile, keep the
        sessions alive and delete the claims that nobody renews.
        """
        new = [everyone_of(self._unheard.popleft()) for _ in range(len(self._unheard))]
        wakes, chore = await self._tend()  # in any case: clients may come without a pause
        if not wakes and not new:
            until = chore if deadline is None else min(chore, deadline)
            await self._transport.pause(None if until == math.inf else until)
            if deadline is None or self._now() < deadline:
                wakes, _ = await self._tend()
        return new + [wake for wake in wakes if wake.id[:CLIENT] in self._heard]

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

    def time(self, name: str) -> float:  # noqa: ARG002  # one clock for all names
        """Return the wall clock of this process, because etcd does not compare `not_after`. What
        that means for replicas of the service is in `wall_clock`.
        """
        return wall_clock.seconds()

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
            if not len(self._own) and not self._own.adopting:
                await self._sessions.revoke(self._now() + CLOSING)
        except EngineError:
            pass  # the leases expire by themselves
        finally:
            self._listener.close()
            await self._transport.close()
