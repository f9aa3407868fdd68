"""The claims of this client in etcd, by id, each with a local deadline.

An etcd lease lives as long as its process keeps it alive. A claim on it that is not renewed must
end all the same, so its own client deletes it when its time is over.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from itertools import count

from lockfast.engines.etcd.claim_transaction import form_of
from lockfast.engines.etcd.messages import DELETE, TXN, Done, delete, deleted, done, txn
from lockfast.engines.etcd.own_claim import OwnClaim
from lockfast.engines.etcd.protobuf import text
from lockfast.engines.etcd.sessions import TRIES, Sessions, unproven
from lockfast.engines.etcd.snapshot import AT_ONCE, Seen, compare_queues
from lockfast.engines.etcd.transport import Transport
from lockfast.errors import EngineError
from lockfast.port import LONGEST_WAIT, TOMB_MARGIN, Ask

PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between deletions that fail


class OwnClaims:
    """The claims of this client in etcd, by id, each with a local deadline. Thread-safe."""

    def __init__(self, transport: Transport, sessions: Sessions) -> None:
        """Start without claims."""
        self._transport = transport
        self._sessions = sessions
        self._by_id: dict[str, OwnClaim] = {}
        # Re-entrant: a signal handler or a finalizer may interrupt a thread that is inside between
        # any two steps, and use the same client. So every loop inside runs over a copy, and a
        # result that an interruption may have made wrong is discarded: see `_sooner`.
        self._lock = threading.RLock()
        self._ticks = count()
        self._changed = next(self._ticks)
        self._over: dict[str, bytes] = {}
        """The keys of claims whose time is over, by id, until they are known to be deleted. They
        are not renewed: a deletion under way would remove a claim that was just reported as held.
        Claims that were never answered are here too. If a copy of one is applied later, nothing
        else would end it, because it is on a lease that this process keeps alive."""
        self._copies: dict[str, int] = {}  # by id: copies sent and not answered
        self._unsure: dict[str, tuple[float, bytes]] = {}
        """Claims with a copy whose outcome is unknown: until when another copy may be sent, and the
        key. After that time they are deleted. The caller may have given up without being able to
        resign, and relies on the claim to end by itself."""
        self.tombs: dict[str, float] = {}
        """Ids that must not be claimed again, and until when. All copies are sent from here."""
        self._pause = PAUSE
        self.soonest = math.inf
        """No claim is over before this time, so `prune` need not run before it."""

    def __len__(self) -> int:
        """Return the number of claims, including those that are still to be deleted."""
        return len(self._by_id) + len(self._over)

    def get(self, id_: str) -> OwnClaim | None:
        """Return the claim with this id, or None."""
        return self._by_id.get(id_)

    def add(self, mine: OwnClaim) -> OwnClaim:
        """Add a claim that etcd has, and return it as it is known here.

        The caller may have repeated it by itself, and renewed it since, while a call that it shared
        was not read yet. What this call says is older, and must not shorten the claim's time.
        """
        with self._lock:
            known = self._by_id.get(mine.id)
            if known is not None and known.revision >= mine.revision:
                known.until = max(known.until, mine.until)
                return known
            self._by_id[mine.id] = mine
            self._sooner(mine.until)
        return mine

    def _sooner(self, when: float, *, anew: bool = False) -> None:
        """Lower `soonest` to `when`, or, with `anew`, set it to `when`. If an interruption changed
        it in between, that change may be lost. Then `soonest` is 0, and `prune` looks at all.
        """
        before = self._changed
        self.soonest = when if anew else min(self.soonest, when)
        if self._changed != before:
            self.soonest = 0.0
        self._changed = next(self._ticks)

    def drop(self, id_: str) -> None:
        """Forget a claim that etcd no longer has. A copy that was never answered may still arrive,
        for example after an operator broke the claim. So `prune` deletes it and moves the gates.
        It deletes a waiter whose lease has ended too: etcd may have moved it to the other lease.
        """
        mine = self._by_id.pop(id_, None)
        if mine is not None and (id_ in self._copies or mine.astray()):
            with self._lock:
                self._over[id_] = mine.key
                self._sooner(0.0)

    def sending(self, asks: Iterable[Ask]) -> None:
        """Note that a copy of each claim is sent."""
        for ask in asks:
            self._copies[ask.id] = self._copies.get(ask.id, 0) + 1

    def dead(self, id_: str) -> bool:
        """Return whether a claim must not be sent again: it was buried, or its time is over."""
        return id_ in self.tombs or id_ in self._over

    def over(self, id_: str) -> bool:
        """Return whether the time of a claim is over, and it waits to be deleted."""
        return id_ in self._over

    async def ask(self, request: bytes, deadline: float) -> Done:
        """Send a transaction that is harmless if sent twice: it reads, or moves existing keys."""
        return done(await self._transport.call(TXN, request, deadline, harmless=True))

    def answered(self, asks: Iterable[Ask]) -> None:
        """Note that a copy of each claim was answered, or not sent after all."""
        for ask in asks:
            left = self._copies.get(ask.id, 0) - 1
            if left > 0:
                self._copies[ask.id] = left
            else:
                self._copies.pop(ask.id, None)

    def bury(self, asks: Iterable[Ask]) -> None:
        """Leave a tombstone for each claim, so that no copy of it is sent any more."""
        now = self._transport.now()
        if len(self.tombs) > AT_ONCE:
            self.tombs = {id_: until for id_, until in self.tombs.items() if until > now}
        for ask in asks:
            # Do not rely on the caller's `not_after` alone, and never shorten a tombstone.
            until = max(ask.not_after, now + LONGEST_WAIT) + TOMB_MARGIN
            self.tombs[ask.id] = max(self.tombs.get(ask.id, 0.0), until)

    def unread(self, asks: Sequence[Ask]) -> None:
        """Note that the reply to these claims could not be decoded. They count as not answered."""
        self.sending(asks)
        self.doubt(asks)

    def doubt(self, asks: Iterable[Ask]) -> None:
        """Have `prune` delete these claims after their `not_after`, if no answer comes."""
        with self._lock:
            for ask in asks:
                self._unsure[ask.id] = (ask.not_after, form_of(ask.shape).key(ask.id))
                self._sooner(ask.not_after)

    async def delete(self, claims: Sequence[tuple[str, bytes]], deadline: float) -> list[bool]:
        """Delete claims by id and key, and return whether each was there. If a copy of one may
        still be under way, move the gates in the same step, so that etcd does not apply the copy.
        """
        if len(claims) == 1 and claims[0][0] not in self._copies:
            there = deleted(await self._transport.call(DELETE, text(1, claims[0][1]), deadline))
            self._over.pop(claims[0][0], None)
            return [there]
        # The gates come first. If there are several transactions, a copy that arrives in between
        # finds its gate moved, and a copy that arrived before is deleted.
        gates = list(self._sessions) if any(id_ in self._copies for id_, _ in claims) else []
        operations = [gate.move() for gate in gates] + [delete(key) for _, key in claims]
        replies: list[bytes] = []
        for start in range(0, len(operations), AT_ONCE):
            some = operations[start : start + AT_ONCE]
            reply = done(await self._transport.call(TXN, txn(b"", some, []), deadline))
            for gate, said in zip(gates[start:], reply.of(len(some)), strict=False):
                if done(said).succeeded:
                    gate.gate = max(gate.gate, reply.revision)
            replies += reply.replies
            for id_, _ in claims[: max(len(replies) - len(gates), 0)]:
                self._copies.pop(id_, None)
                self._over.pop(id_, None)
        return [deleted(said) for said in replies[len(gates) :]]

    async def reject(self, id_: str, key: bytes, deadline: float) -> None:
        """Delete a claim that must never be granted. If that fails, the next `prune` deletes it."""
        with self._lock:
            self._over[id_] = key
        try:
            await self.delete([(id_, key)], deadline)
        except BaseException as error:
            self.soonest = 0.0
            if not isinstance(error, EngineError):
                raise

    async def prune(self, deadline: float) -> list[str]:
        """Delete the claims whose time is over though their session lives. Return their ids."""
        now = self._transport.now()
        with self._lock:
            before = self._changed
            for mine in list(self._by_id.values()):
                if mine.until <= now:
                    self._over[mine.id] = mine.key
                    self.drop(mine.id)
            for id_, (end, key) in list(self._unsure.items()):
                if end <= now or id_ not in self._copies or id_ in self._by_id:
                    self._unsure.pop(id_, None)
                    if id_ in self._copies and id_ not in self._by_id:
                        self._over[id_] = key
            left = [mine.until for mine in list(self._by_id.values())]
            left += [end for end, _ in list(self._unsure.values())]
            same = self._changed == before
            self._sooner(min(left, default=math.inf) if same else 0.0, anew=True)
            over = list(self._over.items())
        try:
            if over:
                await self.delete(over, deadline)
        except BaseException:
            self.soonest = min(self.soonest, now + self._pause)
            self._pause = min(self._pause * 2.0, LONGEST_PAUSE)
            raise
        self._pause = PAUSE
        return [id_ for id_, _ in over]

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
        for start in range(0, len(risen), AT_ONCE):
            chunk = risen[start : start + AT_ONCE]
            reply = await self._sessions.put_on(session, [m.put(session) for m in chunk], deadline)
            if kept is not None:
                kept.prove(reply.term)  # sent after the keepalive was answered
            with self._lock:  # a claim that `prune` has ended by now stays ended
                for mine, said in zip(chunk, reply.of(len(chunk)), strict=True):
                    if not done(said).succeeded or self._by_id.get(mine.id) is not mine:
                        gone.append(mine.id)
                    else:
                        mine.session = session
                        mine.until = min(now + mine.form.shape.ttl, session.until)
        return gone
