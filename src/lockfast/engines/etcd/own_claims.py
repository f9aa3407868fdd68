"""The claims of this client in etcd, by id, each with a local deadline.

An etcd lease lives as long as its process keeps it alive. A claim on it that is not renewed must
end all the same, so its own client deletes it when its time is over.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from lockfast.engines.etcd.claim_transaction import form_of
from lockfast.engines.etcd.deletion import send
from lockfast.engines.etcd.failures import Leaseless, another
from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.messages import DELETE, TXN, Done, delete, deleted, done
from lockfast.engines.etcd.own_claim import Over, OwnClaim
from lockfast.engines.etcd.parts import parts
from lockfast.engines.etcd.protobuf import text
from lockfast.engines.etcd.register import PAUSE, Register
from lockfast.engines.etcd.session import Kept, Session
from lockfast.engines.etcd.sessions import TRIES, Sessions, unproven
from lockfast.engines.etcd.snapshot import AT_ONCE, Seen, compare_queues
from lockfast.engines.etcd.tombs import TombLeases, bury
from lockfast.engines.etcd.transport import Transport
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.port import Ask

LONGEST_PAUSE = 5.0  # seconds between deletions that fail


class OwnClaims(Register):
    """The claims of an engine, and the requests that delete them and move them between leases."""

    def __init__(self, transport: Transport, sessions: Sessions) -> None:
        """Start without claims."""
        super().__init__(transport)
        self._sessions = sessions
        self._tomb_leases = TombLeases(transport)

    async def ask(self, request: bytes, deadline: float) -> Done:
        """Send a transaction that is harmless if sent twice: it reads, or moves existing keys."""
        return done(await self._transport.call(TXN, request, deadline, harmless=True))

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        """Delete claims. Return for each whether it was there, or the error if that is unknown. If
        a copy of one may still be under way, move the gates in the same step, so that etcd does not
        apply the copy. If it may come to another engine, leave a tombstone.

        Raise only if no claim was answered. A claim that needs neither does not fail because etcd
        refuses to write: it deletes keys even if its storage is full.
        """
        buried = {ask.id for ask in asks if doubt and ask.epoch}
        keys = {ask.id: form_of(ask.shape).key(ask.id) for ask in asks}
        doubted = buried.union(self._copies).intersection(keys)
        if len(asks) == 1 and not doubted:
            request = text(1, keys[asks[0].id])
            replies: Sequence[bytes | Exception]
            replies = [await self._transport.call(DELETE, request, deadline)]
        else:
            replies = await self._delete(asks, buried, doubted, deadline)
        answers: list[bool | Exception] = []
        for id_, said in zip(keys, replies, strict=True):
            if isinstance(said, Exception):
                answers.append(said)
            else:
                answers.append(deleted(done(said).of(2)[1] if id_ in buried else said))
                self._copies.pop(id_, None)
                self._over.pop(id_, None)
        return answers

    async def _delete(
        self,
        asks: Sequence[Ask],
        buried: Container[str],
        doubted: Container[str],
        deadline: float,
    ) -> list[bytes | Exception]:
        """Delete claims, and leave a tombstone for those in `buried`. If etcd refuses to write,
        delete those that are not in `doubted`.
        """
        keys = {ask.id: form_of(ask.shape).key(ask.id) for ask in asks}
        left = [ask for ask in asks if ask.id in buried]
        try:
            lease = await self._tomb_leases.lease(left, deadline) if left else 0
            gates = list(self._sessions) if any(id_ in self._copies for id_ in keys) else []
            deletions = [
                bury(id_, key, lease) if id_ in buried else delete(key) for id_, key in keys.items()
            ]
            return await send(self._transport, gates, deletions, deadline)
        except Leaseless:
            self._tomb_leases.forget()
            raise
        except EngineRefused as error:
            plain = [delete(key) for id_, key in keys.items() if id_ not in doubted]
            if not plain or len(plain) == len(keys):
                raise
            replies = iter(await send(self._transport, [], plain, deadline))
            return [another(error) if id_ in doubted else next(replies) for id_ in keys]

    async def end(self, overs: Iterable[tuple[str, Over]], deadline: float) -> None:
        """Delete claims, except those that another engine has adopted. Move the gates if a copy of
        one may still be under way. Raise if it is not certain that all are ended.
        """
        left = dict(overs)
        for _ in range(TRIES):
            if not left:
                return
            gates = list(self._sessions) if any(id_ in self._copies for id_ in left) else []
            deletions = [over.end() for over in left.values()]
            replies = await send(self._transport, gates, deletions, deadline)
            leases = {session.lease for session in self._sessions}
            for (id_, over), said in zip(list(left.items()), replies, strict=True):
                if isinstance(said, Exception):
                    raise said
                row = over.left(said, leases)
                if row is None:
                    left.pop(id_)
                    self._has_ended(id_, over.epoch)
                else:  # a put of this engine was not answered
                    left[id_] = over._replace(mod=row.mod)
        if left:
            raise EngineUnavailable("etcd: claims that are over change all the time", sent=True)

    async def reject(self, id_: str, over: Over, deadline: float) -> None:
        """Delete a claim that must never be granted. If that fails, the next `prune` deletes it."""
        with self._lock:
            self._over[id_] = over
        try:
            await self.end([(id_, over)], deadline)
            self._ended.pop(id_, None)  # whoever asks again is told the same again
        except EngineError:
            pass
        finally:
            if id_ in self._over:
                self.soonest = 0.0

    async def prune(self, overs: Mapping[str, Over], deadline: float) -> None:
        """Delete the claims that `expire` has found, though their session lives."""
        now = self._transport.now()
        try:
            await self.end(overs.items(), deadline)
        except BaseException:
            self.soonest = min(self.soonest, now + self._pause)
            self._pause = min(self._pause * 2.0, LONGEST_PAUSE)
            raise
        self._pause = PAUSE

    async def kept_since(
        self, size: int, when: float, deadline: float
    ) -> tuple[Session, Kept | None]:
        """Return a session of a size as `Sessions.since` does."""
        return await self._sessions.since(size, when, deadline)

    async def adopt(
        self,
        session: Session,
        claims: Sequence[tuple[Ask, Row]],
        now: float,
        deadline: float,
    ) -> dict[str, OwnClaim]:
        """Put claims of other leases on a session, as they were read: see `adoption`. Return those
        that have not changed since, by id.
        """
        adopted: dict[str, OwnClaim] = {}
        for chunk in parts(claims, AT_ONCE, lambda each: len(each[1].payload)):
            asks = [ask for ask, _ in chunk]
            mines = [OwnClaim(a, form_of(a.shape), r.revision, session, r.mod) for a, r in chunk]
            for mine, (ask, row) in zip(mines, chunk, strict=True):
                mine.payload = row.payload
                holds = session.size == mine.form.size
                life = ask.shape.ttl if holds else ask.shape.wait_ttl
                mine.until = min(now + life, session.until)
            # As in `sending`: a claim is looked at after its put was counted and written. So either
            # it is not sent, or `end` moves the gate that it was written with.
            self.sending(asks)
            puts = [mine.adopt(session) for mine in mines]
            dead = [ask for ask in asks if self.dead(ask)]
            if dead:
                self.answered(asks)
                alive = [(ask, row) for ask, row in chunk if ask not in dead]
                adopted |= await self.adopt(session, alive, now, deadline)
                continue
            self._is_adopting(1)
            try:
                reply = await self._sessions.put_on(session, puts, deadline, again=False)
                replies = [done(said) for said in reply.of(len(chunk))]
                for put in replies:
                    if not put.succeeded:
                        self._sessions.read_gate(session, put.of(1)[0])
            except BaseException as error:
                refused = isinstance(error, EngineRefused)
                if refused or (isinstance(error, EngineUnavailable) and not error.sent):
                    self.answered(asks)
                    self._is_adopting(-1)
                else:  # nobody else would end them, if the client is no more
                    self.doubt(asks, max(mine.until for mine in mines))
                raise
            self.answered(asks)
            self._is_adopting(-1)
            for mine, put in zip(mines, replies, strict=True):
                if put.succeeded:
                    mine.mod = reply.revision
                    adopted[mine.id] = self.add(mine)
        return adopted

    def _is_adopting(self, more: int) -> None:
        with self._lock:
            self.adopting += more

    async def extend(self, mines: Sequence[OwnClaim], now: float, deadline: float) -> Seen:
        """Renew claims: each for its life from now, but not beyond its lease, and never shorten it.

        Return the queues of the claims whose lease lives. They are read or compared through the
        quorum after the keepalives were answered, so this proves the keepalives: see `session`.
        """
        sessions = {mine.session for mine in mines}
        for session in sessions:
            session.used = now
        for _ in range(TRIES):
            stale = [each for each in sessions if not each.dead and not each.fresh(now)]
            kept = [await self._sessions.beat(session, deadline) for session in stale]
            alive = [mine for mine in mines if not mine.session.dead]
            seen = await compare_queues(self.ask, alive, deadline)
            proven = [each is None or each.prove(seen.term) for each in kept]
            if all(proven):
                break
        else:
            raise unproven()
        with self._lock:  # a claim that `prune` has ended by now stays ended
            for mine in mines:
                shape = mine.form.shape
                life = shape.ttl if mine.session.size == mine.form.size else shape.wait_ttl
                mine.until = max(mine.until, min(now + life, mine.session.until))
        return seen

    async def promote(
        self, mines: Iterable[OwnClaim], now: float, deadline: float
    ) -> dict[str, EngineError | None]:
        """Move new holders from the waiters' lease to that of their ttl. Return the ids of those
        that failed, each with its error, or with None if etcd no longer has the claim.
        """
        failed: dict[str, EngineError | None] = {}
        by_size: dict[int, list[OwnClaim]] = {}
        for mine in mines:
            if mine.session.size != mine.form.size:
                by_size.setdefault(mine.form.size, []).append(mine)
        for size, risen in by_size.items():
            try:
                failed |= dict.fromkeys(await self._promote(size, risen, now, deadline))
            except EngineError as error:
                failed |= {mine.id: error for mine in risen if mine.session.size != size}
        return failed

    async def _promote(
        self, size: int, risen: Sequence[OwnClaim], now: float, deadline: float
    ) -> list[str]:
        session, kept = await self._sessions.outlasting(
            size, max(mine.until for mine in risen), now, deadline
        )
        gone: list[str] = []
        left = list(risen)
        for _ in range(TRIES):
            moving, left = left, []
            for chunk in parts(moving, AT_ONCE, lambda mine: len(mine.payload)):
                puts = [mine.put(session) for mine in chunk]
                reply = await self._sessions.put_on(session, puts, deadline)
                if kept is not None:
                    kept.prove(reply.term)  # sent after the keepalive was answered
                with self._lock:  # a claim that `prune` has ended by now stays ended
                    for mine, said in zip(chunk, reply.of(len(chunk)), strict=True):
                        moved = mine.moved(done(said), reply.revision, session)
                        if not moved or self._by_id.get(mine.id) is not mine:
                            gone.append(mine.id)
                        elif mine.session is not session:
                            left.append(mine)  # an earlier put was not answered
                        else:
                            mine.until = min(now + mine.form.shape.ttl, session.until)
            if not left:
                return gone
        raise EngineUnavailable("etcd: claims to be moved change all the time", sent=True)
