"""Makes a claim: sends one transaction, and handles each of its outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.core import record
from lockfast.engines.etcd import claim_transaction, keys
from lockfast.engines.etcd.adoption import Adoption, Moved, passed
from lockfast.engines.etcd.claim_transaction import Claimed, Form
from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.messages import Done, done, found, rows, txn
from lockfast.engines.etcd.own_claim import Over, OwnClaim
from lockfast.engines.etcd.own_claims import OwnClaims
from lockfast.engines.etcd.protobuf import Malformed
from lockfast.engines.etcd.queues import Places
from lockfast.engines.etcd.sending import Sender
from lockfast.engines.etcd.session import Session
from lockfast.engines.etcd.sessions import Sessions
from lockfast.engines.etcd.settling import Entered, settle
from lockfast.engines.etcd.standing import blocker, granted
from lockfast.errors import EngineRefused, KindMismatch
from lockfast.port import Ask, Standing


class Attempt:
    """One attempt to make a claim."""

    __slots__ = (
        *("_base", "_deadline", "_now", "_own", "_places", "_sender", "_sessions"),
        *("ask", "form", "payload"),
    )

    def __init__(  # noqa: PLR0913, PLR0917  # a hot path: no bundle
        self,
        ask: Ask,
        form: Form,
        sessions: Sessions,
        own: OwnClaims,
        sender: Sender,
        places: Places,
        base: int,
        now: float,
        deadline: float,
    ) -> None:
        """Prepare a claim. `now`: just before anything is sent."""
        self.ask = ask
        self.form = form
        self.payload = record.with_epoch(ask.epoch, ask.payload)
        self._sessions = sessions
        self._own = own
        self._sender = sender
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
            if said is None:
                return None
            if isinstance(said, Claimed):
                return await self._settled(await self.entered(said, holder, waiter))
            queue, at = said
            if self.is_in(queue):
                return await self._settled(await self.found(queue, at))
            if holder.dead:
                holder = await sessions.open(form.size, self._deadline)
            elif queue and not ask.queue:
                self.check(queue)
                if not self.fits(queue):
                    return self.refused(queue)
                said = await self._squeeze(at, holder)
                if said is not None:
                    return await self._settled(await self.entered(said, holder, None))
            elif queue:
                self.check(queue)
                waiter = await sessions.open(form.wait_size, self._deadline)

    def _alone(self, revision: int, holder: Session) -> Standing:
        mine = self._take(revision, holder, self.ask.shape.ttl)
        mine.alone = True
        ticket = revision + self._base
        return Standing(ticket, granted=True, left=mine.until - self._now, floor=ticket)

    async def _put(
        self, holder: Session, waiter: Session | None
    ) -> Claimed | tuple[list[Row], int] | None:
        """Send the claim. Return how it was put, or else what `_learn` does. None: it is dead."""
        ask, form, same_base = self.ask, self.form, self._sessions.same_base()
        id_ = ask.id.encode()
        if ask.queue:
            request = claim_transaction.claim(form, id_, self.payload, holder, waiter, same_base)
        else:
            request = claim_transaction.attempt(form, id_, self.payload, holder, same_base)
        reply = await self._sender.send(ask, request, self._deadline)
        if reply is None:
            return None
        said = claim_transaction.claimed(reply, form)
        if said is not None:
            return said
        if not ask.queue:
            return self._learn(done(reply), holder, waiter)
        reads = claim_transaction.learn(form, id_, holder, waiter)
        read = await self._own.ask(txn(b"", reads, []), self._deadline)
        return self._learn(read, holder, waiter)

    def _learn(
        self, said: Done, holder: Session, waiter: Session | None
    ) -> tuple[list[Row], int] | None:
        """Learn why a claim was not put: a gate has moved, the base has changed, or the name is
        taken, perhaps by claims of another kind or format. Return the name's queue, and the
        revision at which it was read. None: the claim has a tombstone.
        """
        tomb, queue, base, first, second = said.of(5)
        self._sessions.read_base(base)
        self._sessions.read_gate(holder, first)
        if waiter is not None and waiter is not holder:
            self._sessions.read_gate(waiter, second)
        return None if found(tomb).kvs else (rows(found(queue)), said.revision)

    def is_in(self, queue: Sequence[Row]) -> bool:
        """Return whether an earlier copy of the claim is in a queue."""
        return any(row.id == self.ask.id for row in queue)

    def check(self, ahead: Sequence[Row]) -> None:
        """Raise if a claim ahead is of another kind, or cannot be read."""
        kind = self.ask.shape.kind
        for row in ahead:
            if row.kind is None:
                raise keys.unreadable(row)
            if row.kind is not kind:
                raise KindMismatch(self.ask.shape.name, kind.words, row.kind.words)

    async def _check_put(self, ahead: Sequence[Row], over: Over) -> None:
        """Check what is ahead of a claim that was put, and delete the claim before this raises.

        etcd has compared kinds and formats before it put the claim, so what is found here was not
        written by lockfast. The claim is never recorded as this client's: a retry would find it,
        and might report it as granted.
        """
        try:
            self.check(ahead)
        except (EngineRefused, KindMismatch):
            await self._own.reject(self.ask.id, over, self._deadline)
            raise

    async def found(self, queue: list[Row], revision: int) -> Entered | Moved | Standing | None:
        """Record the entry that an earlier copy made. None: its time is over, and the entry was
        deleted.

        The time of a copy that this connection has sent began with the first one. A copy that an
        earlier connection has sent is to be adopted. If a later connection has adopted the claim,
        this copy is late, and changes nothing.
        """
        ask, shape = self.ask, self.ask.shape
        place, row = next((i, row) for i, row in enumerate(queue) if row.id == ask.id)
        if row.epoch > ask.epoch:
            return passed(row, self._base, granted=place < granted(queue))
        session = self._sessions.get(row.lease)
        if ask.epoch and (row.epoch < ask.epoch or session is None):
            return Moved(ask, granted=place < granted(queue))
        over = Over(row.key, row.mod, row.epoch)
        await self._check_put(queue[: place + 1], over)
        if session is not None:
            mine = OwnClaim(ask, self.form, row.revision, session, row.mod)
            life = shape.ttl if session.size == self.form.size else shape.wait_ttl
            mine.until = min(ask.not_after - shape.wait_ttl + life, session.until)
            if mine.until > self._now:
                return Entered(self._own.add(mine), queue, revision)
        await self._own.end([(ask.id, over)], self._deadline)
        return None

    def fits(self, queue: Sequence[Row]) -> bool:
        """Return whether the claim would be granted at once, beside all claims of a queue."""
        shape = self.ask.shape
        load = sum(row.weight for row in queue) + shape.weight
        return granted(queue) == len(queue) and load <= shape.capacity

    def refused(self, queue: Sequence[Row]) -> Standing:
        """Return the standing of a claim without `queue` that is not kept."""
        head = blocker(queue[0], self._base)
        return Standing(0, granted=False, left=0.0, ahead=len(queue), blocker=head)

    async def _squeeze(self, revision: int, holder: Session) -> Claimed | None:
        """Claim beside other holders without waiting. None: try again."""
        ask = self.ask
        conditions = holder.same() + self._sessions.same_base()
        request = claim_transaction.squeeze(
            self.form, ask.id, self.payload, holder, conditions, revision
        )
        reply = await self._sender.send(ask, request, self._deadline)
        return None if reply is None else claim_transaction.squeezed(reply)

    async def entered(
        self, said: Claimed, holder: Session, waiter: Session | None
    ) -> Standing | Entered:
        """Record a claim that was put, with the time its session has left. Return its standing, or
        what is needed to settle that.
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
        await self._check_put(ahead, Over(self.form.key(ask.id), revision, ask.epoch))
        mine = self._take(revision, session, life)
        if ends is not None and ends.before is not None:
            return self._places.behind(mine, head, ends.ahead, ends.before, said.at, now)
        return Entered(mine, queue or [head], said.at)

    async def _settled(self, said: Standing | Entered | Moved | None) -> Standing | None:
        rest = (self._own, self._places, self._now, self._deadline)
        if isinstance(said, Moved):
            found = (await Adoption([said], *rest).make())[self.ask.id]
        elif isinstance(said, Entered):
            (found,) = await settle([said], *rest)
        else:
            return said
        if isinstance(found, Exception):
            raise found
        return found

    def _take(self, revision: int, session: Session, life: float) -> OwnClaim:
        mine = OwnClaim(self.ask, self.form, revision, session)
        mine.until = min(self._now + life, session.until)
        return self._own.add(mine)
