"""How a claim is made: one transaction, and what to do about each of its outcomes."""

from __future__ import annotations

from lockfast.engines.etcd import forms
from lockfast.engines.etcd.forms import Claimed, Form
from lockfast.engines.etcd.holdings import Holdings, Mine
from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.messages import found, rows
from lockfast.engines.etcd.places import Places
from lockfast.engines.etcd.sessions import Session, Sessions
from lockfast.engines.etcd.standings import blocker, granted
from lockfast.errors import CapacityMismatch
from lockfast.port import Ask, Standing


class Attempt:
    """One claim on its way in."""

    __slots__ = ("_base", "_deadline", "_holdings", "_now", "_places", "_sessions", "ask", "form")

    def __init__(  # noqa: PLR0913, PLR0917  # a hot path: no bundle
        self,
        ask: Ask,
        form: Form,
        sessions: Sessions,
        holdings: Holdings,
        places: Places,
        base: int,
        now: float,
        deadline: float,
    ) -> None:
        """`now`: just before anything was sent."""
        self.ask = ask
        self.form = form
        self._sessions = sessions
        self._holdings = holdings
        self._places = places
        self._base = base
        self._now = now
        self._deadline = deadline

    async def make(self) -> Standing | None:
        """Claim. With a session that is ready this is one round trip, contended or not.

        The lease for waiters is opened by the first who has to wait: most clients never do.
        """
        ask, form, sessions = self.ask, self.form, self._sessions
        holder = sessions.ready(form.size, self._now)
        if holder is None:
            holder = await sessions.open(form.size, self._deadline)
        waiter = sessions.ready(form.wait_size, self._now) if ask.queue else None
        while True:
            same_base = sessions.same_base()
            request = forms.claim(form, ask.id, ask.payload, holder, waiter, same_base)
            reply = await self._holdings.send(ask.id, request, self._deadline)
            said = forms.claimed(reply, form, nested=waiter is not None)
            if said.reads is None:
                session = waiter if said.waiting and waiter is not None else holder
                return await self._entered(said, session)
            queue = self._learn(said.reads, holder, waiter)
            if any(row.id == ask.id for row in queue):
                return await self._found(queue, said.revision)
            if holder.dead:
                holder = await sessions.open(form.size, self._deadline)
            elif queue and not ask.queue:
                outcome = await self._squeeze(queue, said.revision, holder)
                if outcome is not None:
                    return outcome
            elif queue:
                self._check_capacity(queue[0])
                waiter = await sessions.open(form.wait_size, self._deadline)

    def _learn(self, reads: list[bytes], holder: Session, waiter: Session | None) -> list[Row]:
        """Take in why a claim was not put: a gate has moved, or a base, or somebody is there."""
        self._sessions.read_gate(holder, reads[0])
        self._sessions.read_base(reads[1])
        if waiter is not None and waiter is not holder:
            self._sessions.read_gate(waiter, reads[3])
        return rows(found(reads[2]))

    def _check_capacity(self, head: Row) -> None:
        if head.capacity != self.ask.shape.capacity:
            raise CapacityMismatch(self.ask.shape.name, self.ask.shape.capacity, head.capacity)

    async def _found(self, queue: list[Row], revision: int) -> Standing | None:
        """Take in the entry that an earlier copy has made: its time began with the first copy."""
        ask, shape = self.ask, self.ask.shape
        row = next(row for row in queue if row.id == ask.id)
        session = self._sessions.get(row.lease)
        if session is not None:
            mine = Mine(ask, self.form, row.revision, session)
            life = shape.ttl if session.size == self.form.size else shape.wait_ttl
            mine.until = min(ask.not_after - shape.wait_ttl + life, session.until)
            if mine.until > self._now:
                self._holdings.add(mine)
                return self._places.among(mine, queue, revision, self._now)
        await self._holdings.delete([(ask.id, row.key)], self._deadline)  # its time is over
        return None

    async def _squeeze(self, queue: list[Row], revision: int, holder: Session) -> Standing | None:
        """Without waiting: in beside the others at once, or not at all. None: try again."""
        ask, shape = self.ask, self.ask.shape
        self._check_capacity(queue[0])
        if sum(row.weight for row in queue) + shape.weight > shape.capacity:
            head = blocker(queue[0], self._base)
            return Standing(0, granted=False, left=0.0, ahead=len(queue), blocker=head)
        same_base = self._sessions.same_base()
        request = forms.squeeze(self.form, ask.id, ask.payload, holder, same_base, revision)
        reply = await self._holdings.send(ask.id, request, self._deadline)
        said = forms.claimed(reply, self.form, nested=False)
        return await self._entered(said, holder) if said.reads is None else None

    async def _entered(self, said: Claimed, session: Session) -> Standing:
        """Take in that the claim was put, and has what is left of its session."""
        ask, shape = self.ask, self.ask.shape
        if said.ends is not None:
            head, ahead, tail = said.ends
            queue, revision = [head], tail[0][1]
        else:
            queue, ahead, tail = said.queue or [], 0, []
            head = queue[0]
            revision = next(row.revision for row in queue if row.id == ask.id)
        mine = Mine(ask, self.form, revision, session)
        life = shape.wait_ttl if said.waiting else shape.ttl
        mine.until = min(self._now + life, session.until)
        self._holdings.add(mine)
        if head.capacity != shape.capacity:
            await self._holdings.delete([(ask.id, mine.key)], self._deadline)
            self._holdings.drop(ask.id)
            self._check_capacity(head)
        if ahead:
            before = tail[1]
            return self._places.behind(mine, head, ahead, before, said.revision, self._now)
        if said.waiting and mine.key in [row.key for row in queue[: granted(queue)]]:
            await self._holdings.promote([mine], self._now, self._deadline)
        return self._places.among(mine, queue, said.revision, self._now)
