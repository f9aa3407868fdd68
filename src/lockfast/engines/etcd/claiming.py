"""Makes a claim: sends one transaction, and handles each of its outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.engines.etcd import claim_transaction, keys
from lockfast.engines.etcd.claim_transaction import Claimed, Form
from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.messages import Done, done, found, inner, rows, txn
from lockfast.engines.etcd.own_claim import OwnClaim
from lockfast.engines.etcd.own_claims import OwnClaims
from lockfast.engines.etcd.protobuf import Malformed
from lockfast.engines.etcd.queues import Places
from lockfast.engines.etcd.session import Session
from lockfast.engines.etcd.sessions import Sessions
from lockfast.engines.etcd.standing import blocker, granted
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable, KindMismatch
from lockfast.port import Ask, Standing

MOST = 64  # claims in one transaction: etcd allows 128 operations


class Attempt:
    """One attempt to make a claim."""

    __slots__ = ("_base", "_deadline", "_now", "_own", "_places", "_sessions", "ask", "form")

    def __init__(  # noqa: PLR0913, PLR0917  # a hot path: no bundle
        self,
        ask: Ask,
        form: Form,
        sessions: Sessions,
        own: OwnClaims,
        places: Places,
        base: int,
        now: float,
        deadline: float,
    ) -> None:
        """Prepare a claim. `now`: just before anything is sent."""
        self.ask = ask
        self.form = form
        self._sessions = sessions
        self._own = own
        self._places = places
        self._base = base
        self._now = now
        self._deadline = deadline

    async def make(self) -> Standing | None:
        """Make the claim. If a session is ready, this is one round trip, contended or not.

        The first claim that has to wait opens the lease for waiters. Most clients never wait.
        """
        ask, form, sessions = self.ask, self.form, self._sessions
        holder = sessions.ready(form.size, self._now)
        if holder is None:
            holder = await sessions.open(form.size, self._deadline)
        waiter = sessions.ready(form.wait_size, self._now) if ask.queue else None
        try:
            return await self._make(holder, waiter)
        except Malformed:
            self._own.unread([ask])
            raise

    async def _make(self, holder: Session, waiter: Session | None) -> Standing | None:
        ask, form, sessions = self.ask, self.form, self._sessions
        while True:
            said = await self._put(holder, waiter)
            if isinstance(said, Claimed):
                return await self._entered(said, holder, waiter)
            queue, at = self._learn(said, holder, waiter)
            if any(row.id == ask.id for row in queue):
                return await self._found(queue, at)
            if holder.dead:
                holder = await sessions.open(form.size, self._deadline)
            elif queue and not ask.queue:
                self._check(queue)
                outcome = await self._squeeze(queue, at, holder)
                if outcome is not None:
                    return outcome
            elif queue:
                self._check(queue)
                waiter = await sessions.open(form.wait_size, self._deadline)

    async def session(self) -> Session:
        """Return the session whose lease the claim is put on if it is granted."""
        size = self.form.size
        ready = self._sessions.ready(size, self._now)
        return ready or await self._sessions.open(size, self._deadline)

    def request(self, holder: Session) -> bytes:
        """Return the claim as an operation of a transaction. It is put only if the name is free."""
        ask, same_base = self.ask, self._sessions.same_base()
        return inner(
            claim_transaction.claim(
                self.form, ask.id.encode(), ask.payload, holder, None, same_base
            )
        )

    async def send(self, asks: list[Ask], request: bytes) -> bytes:
        """Send a transaction that carries these claims, and return the reply."""
        return await self._own.send_all(asks, request, self._deadline)

    def unread(self, asks: list[Ask]) -> None:
        """Note that the reply to these claims could not be decoded."""
        self._own.unread(asks)

    def alone(self, reply: bytes, holder: Session) -> Standing | None:
        """Record a claim that was put on a free name, and return its standing. None: not put."""
        said = claim_transaction.claimed(reply, self.form)
        if said is None:
            return None
        return self._alone(said.alone, holder)

    def _alone(self, revision: int, holder: Session) -> Standing:
        mine = self._take(revision, holder, self.ask.shape.ttl)
        ticket = revision + self._base
        return Standing(ticket, granted=True, left=mine.until - self._now, floor=ticket)

    async def _put(self, holder: Session, waiter: Session | None) -> Claimed | Done:
        """Send the claim. Return how it was put, or else a read that shows why it was not."""
        ask, form, same_base = self.ask, self.form, self._sessions.same_base()
        id_ = ask.id.encode()
        if ask.queue:
            request = claim_transaction.claim(form, id_, ask.payload, holder, waiter, same_base)
        else:
            request = claim_transaction.attempt(form, id_, ask.payload, holder, same_base)
        reply = await self._own.send(ask, request, self._deadline)
        said = claim_transaction.claimed(reply, form)
        if said is not None:
            return said
        if not ask.queue:
            return done(reply)
        reads = claim_transaction.learn(form, holder, waiter)
        return await self._own.ask(txn(b"", reads, []), self._deadline)

    def _learn(self, said: Done, holder: Session, waiter: Session | None) -> tuple[list[Row], int]:
        """Learn why a claim was not put: a gate has moved, the base has changed, or the name is
        taken, perhaps by claims of another kind or format. Return the name's queue, and the
        revision at which it was read.
        """
        queue, base, first, second = said.of(4)
        self._sessions.read_base(base)
        self._sessions.read_gate(holder, first)
        if waiter is not None and waiter is not holder:
            self._sessions.read_gate(waiter, second)
        return rows(found(queue)), said.revision

    def _check(self, ahead: Sequence[Row]) -> None:
        """Raise if a claim ahead is of another kind, or cannot be read."""
        kind = self.ask.shape.kind
        for row in ahead:
            if row.kind is None:
                raise keys.unreadable(row)
            if row.kind is not kind:
                raise KindMismatch(self.ask.shape.name, kind.words, row.kind.words)

    async def _check_put(self, ahead: Sequence[Row], key: bytes) -> None:
        """Check what is ahead of a claim that was put, and delete the claim before this raises.

        etcd has compared kinds and formats before it put the claim, so what is found here was not
        written by lockfast. The claim is never recorded as this client's: a retry would find it,
        and might report it as granted.
        """
        try:
            self._check(ahead)
        except (EngineRefused, KindMismatch):
            await self._own.reject(self.ask.id, key, self._deadline)
            raise

    async def _found(self, queue: list[Row], revision: int) -> Standing | None:
        """Return the standing of the entry that an earlier copy made. Its time began with the first
        copy. None: its time is over, and the entry was deleted.
        """
        ask, shape = self.ask, self.ask.shape
        place, row = next((i, row) for i, row in enumerate(queue) if row.id == ask.id)
        await self._check_put(queue[: place + 1], row.key)
        session = self._sessions.get(row.lease)
        if session is not None:
            mine = OwnClaim(ask, self.form, row.revision, session)
            life = shape.ttl if session.size == self.form.size else shape.wait_ttl
            mine.until = min(ask.not_after - shape.wait_ttl + life, session.until)
            if mine.until > self._now:
                self._own.add(mine)
                return await self._placed(mine, queue, revision)
        await self._own.delete([(ask.id, row.key)], self._deadline)
        return None

    async def _squeeze(self, queue: list[Row], revision: int, holder: Session) -> Standing | None:
        """Claim beside other holders without waiting: granted now, or not kept. None: try again."""
        ask, shape = self.ask, self.ask.shape
        waits = granted(queue) < len(queue)
        if waits or sum(row.weight for row in queue) + shape.weight > shape.capacity:
            head = blocker(queue[0], self._base)
            return Standing(0, granted=False, left=0.0, ahead=len(queue), blocker=head)
        same_base = self._sessions.same_base()
        request = claim_transaction.squeeze(
            self.form, ask.id, ask.payload, holder, same_base, revision
        )
        reply = await self._own.send(ask, request, self._deadline)
        said = claim_transaction.squeezed(reply)
        return None if said is None else await self._entered(said, holder, None)

    async def _entered(
        self, said: Claimed, holder: Session, waiter: Session | None
    ) -> Standing | None:
        """Record a claim that was put, with the time its session has left. Return its standing.
        None: it has ended meanwhile.
        """
        ask, shape, now = self.ask, self.ask.shape, self._now
        if said.alone:
            return self._alone(said.alone, holder)
        session, life = (holder, shape.ttl) if waiter is None else (waiter, shape.wait_ttl)
        ends, queue = said.ends, said.queue or []
        if ends is not None:
            head, revision, ahead = ends.head, ends.revision, [ends.head]
            if ends.before is None and head.id != ask.id:
                raise Malformed("a claim with nothing before it that is not the head")
        else:
            place = next((i for i, row in enumerate(queue) if row.id == ask.id), -1)
            if place < 0:
                raise Malformed("a queue without the claim that was put")
            head, revision, ahead = queue[0], queue[place].revision, queue[:place]
        await self._check_put(ahead, self.form.key(ask.id))
        mine = self._take(revision, session, life)
        if ends is not None and ends.before is not None:
            return self._places.behind(mine, head, ends.ahead, ends.before, said.at, now)
        return await self._placed(mine, queue or [head], said.at)

    async def _placed(self, mine: OwnClaim, queue: list[Row], at: int) -> Standing | None:
        """Return the standing of a claim. If granted, first move it to the lease of its ttl. None:
        the claim has ended meanwhile.
        """
        if mine.key in [row.key for row in queue[: granted(queue)]]:
            failed = await self._own.promote([mine], self._now, self._deadline)
            await self._kept(mine, failed.get(mine.id))
            if mine.id in failed:  # etcd no longer has it: an operator may have broken it
                self._places.gone([mine.id])
                return None
        return self._places.among(mine, queue, at, self._now)

    async def _kept(self, mine: OwnClaim, error: EngineError | None) -> None:
        """Raise the error of a promotion, if there is one. The claim was put before, so the caller
        must not take the error to mean that nothing was sent. It would leave the claim to hold a
        permit that nobody uses.
        """
        if isinstance(error, EngineUnavailable):
            raise EngineUnavailable(error.message, sent=True) from error
        if error is not None:
            self._places.gone([mine.id])
            await self._own.reject(mine.id, mine.key, self._deadline)
            raise error

    def _take(self, revision: int, session: Session, life: float) -> OwnClaim:
        mine = OwnClaim(self.ask, self.form, revision, session)
        mine.until = min(self._now + life, session.until)
        self._own.add(mine)
        return mine


async def together(attempts: list[Attempt]) -> dict[str, Standing]:
    """Put all claims whose names are free, in one transaction. Return their standings by id."""
    if not attempts:
        return {}
    holders = [await attempt.session() for attempt in attempts]
    requests = [attempt.request(holder) for attempt, holder in zip(attempts, holders, strict=True)]
    asks = [attempt.ask for attempt in attempts]
    said = await attempts[0].send(asks, txn(b"", requests, []))
    try:
        found = zip(attempts, holders, done(said).of(len(attempts)), strict=True)
        standings = {each.ask.id: each.alone(reply, holder) for each, holder, reply in found}
    except Malformed:
        attempts[0].unread(asks)
        raise
    return {id_: standing for id_, standing in standings.items() if standing is not None}
