"""The claims of this client at the servers, by id, each with a local deadline.

A lease lives as long as the process that keeps it. A claim that was not renewed must end all the
same, so its own client deletes it when its time is over.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import count

from lockfast.engines.etcd.claim_transaction import form_of
from lockfast.engines.etcd.messages import (
    DELETE,
    TXN,
    Done,
    delete,
    deleted,
    done,
    txn,
)
from lockfast.engines.etcd.own_claim import OwnClaim
from lockfast.engines.etcd.protobuf import text
from lockfast.engines.etcd.sessions import TRIES, Sessions, unproven
from lockfast.engines.etcd.snapshot import AT_ONCE, Seen, read_queues
from lockfast.engines.etcd.transport import Transport
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.port import LONGEST_WAIT, TOMB_MARGIN, Ask
from lockfast.runtime.base import Crowded

PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between deletions that fail


class OwnClaims:
    """The claims of this client at the servers, by id, each with a local deadline. Thread-safe."""

    def __init__(self, transport: Transport, sessions: Sessions) -> None:
        """Begin with none."""
        self._transport = transport
        self._sessions = sessions
        self._by_id: dict[str, OwnClaim] = {}
        # Re-entrant: a signal handler or a finalizer may come between any two steps of a thread
        # that is inside, and use the same client. Every loop under it runs over a copy, and what
        # was counted is thrown away if anything came in between: see `_sooner`.
        self._lock = threading.RLock()
        self._ticks = count()
        self._changed = next(self._ticks)
        self._over: dict[str, bytes] = {}
        """The keys of those whose time is over, by id, until they are known to be deleted. They are
        renewed no more: a deletion that is under way would take from a holder what it was just told
        it has. And those that were never answered: nothing else would ever end what comes to life
        of them, as it is on a lease that this process keeps."""
        self._copies: dict[str, int] = {}  # how many were sent of a claim and not answered
        self._unsure: dict[str, tuple[float, bytes]] = {}
        """Those of them whose outcome is not known: until when another copy may be sent, and the
        key. Whoever asked may have given up by then without having been able to tell us: it counts
        on a claim to end by itself."""
        self.tombs: dict[str, float] = {}
        """Ids that must not come to life: all copies of them are sent from here."""
        self._pause = PAUSE
        self.soonest = math.inf
        """No claim is over before that."""

    def __len__(self) -> int:
        """Count them."""
        return len(self._by_id) + len(self._over)

    def get(self, id_: str) -> OwnClaim | None:
        """Find one."""
        return self._by_id.get(id_)

    def add(self, mine: OwnClaim) -> None:
        """Take one in."""
        with self._lock:
            self._by_id[mine.id] = mine
            self._sooner(mine.until)

    def _sooner(self, when: float, *, anew: bool = False) -> None:
        """Note when a claim is over, or, anew, when the first of all of them is. What an
        interruption has noted in between would be overwritten: then all are counted at once.
        """
        before = self._changed
        self.soonest = when if anew else min(self.soonest, when)
        if self._changed != before:
            self.soonest = 0.0
        self._changed = next(self._ticks)

    def drop(self, id_: str) -> None:
        """Forget one that is not there any more. A copy of it that was never answered may still
        come, after an operator's break for one: it is deleted, and the gates move.
        """
        mine = self._by_id.pop(id_, None)
        if mine is not None and id_ in self._copies:
            with self._lock:
                self._over[id_] = mine.key
                self._sooner(0.0)

    async def send(self, ask: Ask, request: bytes, deadline: float) -> bytes:
        """Send a copy of a claim, and know for how many there was no answer."""
        return await self.send_all((ask,), request, deadline)

    async def send_all(self, asks: Sequence[Ask], request: bytes, deadline: float) -> bytes:
        """Send a copy of several claims, in one transaction."""
        try:
            return await self._transport.in_turn(
                partial(self._send_all, asks, request, deadline), deadline
            )
        except Crowded:
            raise EngineUnavailable("too many claims are under way", sent=False) from None

    async def _send_all(self, asks: Sequence[Ask], request: bytes, deadline: float) -> bytes:
        ids = [ask.id for ask in asks]
        for id_ in ids:
            self._copies[id_] = self._copies.get(id_, 0) + 1
        try:
            reply = await self._transport.call(TXN, request, deadline)
        except EngineRefused:
            self._answered(ids)
            raise
        except BaseException as error:
            if isinstance(error, EngineUnavailable) and not error.sent:
                self._answered(ids)
            else:
                self._doubt(asks)
            raise
        self._answered(ids)
        return reply

    def knows(self, id_: str) -> bool:
        """Return whether a claim was taken in, or is dead."""
        return id_ in self._by_id or self.dead(id_)

    def dead(self, id_: str) -> bool:
        """Return whether a claim must not come to life: it was buried, or its time is over."""
        return id_ in self.tombs or id_ in self._over

    def over(self, id_: str) -> bool:
        """Return whether the time of a claim is over, and it waits to be deleted."""
        return id_ in self._over

    async def ask(self, request: bytes, deadline: float) -> Done:
        """Send a transaction that reads, or moves what is there: twice is as good as once."""
        return done(await self._transport.call(TXN, request, deadline, harmless=True))

    def _answered(self, ids: Sequence[str]) -> None:
        for id_ in ids:
            left = self._copies.get(id_, 0) - 1
            if left > 0:
                self._copies[id_] = left
            else:
                self._copies.pop(id_, None)

    def bury(self, asks: Iterable[Ask]) -> None:
        """Send no copy of these any more."""
        now = self._transport.now()
        if len(self.tombs) > AT_ONCE:
            self.tombs = {id_: until for id_, until in self.tombs.items() if until > now}
        for ask in asks:
            # Not by what the asker knows of the clock alone, and never shorter than before.
            until = max(ask.not_after, now + LONGEST_WAIT) + TOMB_MARGIN
            self.tombs[ask.id] = max(self.tombs.get(ask.id, 0.0), until)

    def unread(self, asks: Sequence[Ask]) -> None:
        """Note that the answer to these claims could not be read: as if there were none."""
        for ask in asks:
            self._copies[ask.id] = self._copies.get(ask.id, 0) + 1
        self._doubt(asks)

    def _doubt(self, asks: Iterable[Ask]) -> None:
        """See to it that nothing stays of a copy that was not answered."""
        with self._lock:
            for ask in asks:
                self._unsure[ask.id] = (ask.not_after, form_of(ask.shape).key(ask.id))
                self._sooner(ask.not_after)

    async def delete(self, claims: Sequence[tuple[str, bytes]], deadline: float) -> list[bool]:
        """Delete claims by id and key. If a copy of one may still be on its way, the gates move in
        the same step: it will not be let in.
        """
        if len(claims) == 1 and claims[0][0] not in self._copies:
            there = deleted(await self._transport.call(DELETE, text(1, claims[0][1]), deadline))
            self._over.pop(claims[0][0], None)
            return [there]
        # The gates first: should it take several transactions, a copy that comes in between finds
        # its gate moved, and one that came before is deleted.
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
        """Delete a claim that must never be granted: now, or else when claims are next pruned."""
        with self._lock:
            self._over[id_] = key
        try:
            await self.delete([(id_, key)], deadline)
        except BaseException as error:
            self.soonest = 0.0
            if not isinstance(error, EngineError):
                raise

    async def prune(self, deadline: float) -> list[str]:
        """Delete the claims that are over though their session lives; give their ids."""
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
        """Renew: each for its life from now, as far as its lease goes. Never shorter.

        Give the queues of those whose lease lives. They are read through the quorum, after the
        keepalives were answered, and that read proves them: see `sessions`.
        """
        sessions = {mine.session for mine in mines}
        for session in sessions:
            session.used = now
        for _ in range(TRIES):
            stale = [each for each in sessions if not each.dead and not each.fresh(now)]
            kept = [await self._sessions.beat(session, deadline) for session in stale]
            alive = [mine.form for mine in mines if not mine.session.dead]
            seen = await read_queues(self.ask, alive, deadline)
            proven = [each is None or each.prove(seen.term) for each in kept]
            if all(proven):
                break
        else:
            raise unproven()
        with self._lock:  # what is over at this moment is over for good
            for mine in mines:
                shape = mine.form.shape
                life = shape.ttl if mine.session.size == mine.form.size else shape.wait_ttl
                mine.until = max(mine.until, min(now + life, mine.session.until))
        return seen

    async def promote(self, mines: Iterable[OwnClaim], now: float, deadline: float) -> list[str]:
        """Move new holders from the waiters' lease to that of their ttl; give who was not there."""
        gone: list[str] = []
        by_size: dict[int, list[OwnClaim]] = {}
        for mine in mines:
            if mine.session.size != mine.form.size:
                by_size.setdefault(mine.form.size, []).append(mine)
        for size, risen in by_size.items():
            session = await self._sessions.open(size, deadline)
            kept = None if session.fresh(now) else await self._sessions.beat(session, deadline)
            if session.dead:
                continue  # they stay on the waiters' lease until they are renewed again
            for start in range(0, len(risen), AT_ONCE):
                chunk = risen[start : start + AT_ONCE]
                request = txn(b"", [mine.put(session) for mine in chunk], [])
                reply = await self.ask(request, deadline)
                if kept is not None:
                    kept.prove(reply.term)  # it was sent after the keepalive was answered
                for mine, said in zip(chunk, reply.of(len(chunk)), strict=True):
                    if done(said).succeeded:
                        mine.session = session
                        mine.until = min(now + mine.form.shape.ttl, session.until)
                    else:
                        gone.append(mine.id)
        return gone
