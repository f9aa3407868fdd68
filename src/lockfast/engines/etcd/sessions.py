"""A session: one lease of this client for all its claims of like ttl, and the gate beside it.

A lease per lock would drown etcd's leader in keepalives (trap 35). The gate is a key on the same
lease; every claim compares its last change. Whoever resigns in doubt moves it, so that a copy of
the claim which is still on its way finds it moved, and does nothing (trap 47).

A keepalive does not go through raft. A leader that was paused or cut off answers it before it
learns that it was replaced, and its successor does not know of the extension. So an answered
keepalive counts only once it is proven: a read through the quorum, sent after the answer was
received, must carry the same raft term T in its header.

Why that is enough. etcd reads the term in a header from the last entry that the asked member has
applied; for a keepalive it does so before it extends the lease, or passes it on to the leader.
1. The asked member had applied an entry of T. So the leader of T was elected by then, the member
   itself was no leader of an earlier term any more, and the leader to whom it passes a keepalive
   is that of T or of a later term.
2. A majority confirmed a leader for the read after it was sent, and the member that answered had
   applied an entry of that leader's term: the term is at most T. So no leader of a later term was
   elected before the read was sent, which is after the keepalive was answered.
3. So the leader of T extended the lease. It revokes the lease no earlier than the whole time after
   the keepalive was sent. A later leader was elected after that, and begins every lease anew.
The term of a serializable read proves nothing: no majority is asked. A term of 0 is that of a
member that has applied nothing since its start.

What is left open is in etcd (3.4 to 3.7). A member notes the index of an entry that it has applied
and then, in the next instruction, its term: a read that is answered between the two carries the
term before. And a member that receives a snapshot keeps its old term until the next entry: two
snapshots in a row, one on each side of a keepalive, would hide a leader.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from lockfast.engines.etcd import keys
from lockfast.engines.etcd.failures import Leaseless, crowded
from lockfast.engines.etcd.messages import (
    CREATE,
    EQUAL,
    GRANT,
    GREATER,
    KEEP,
    MOD,
    REVOKE,
    TXN,
    compare,
    done,
    find,
    found,
    inner,
    put,
    term,
    touch,
    txn,
)
from lockfast.engines.etcd.protobuf import Malformed, number, numbers
from lockfast.engines.etcd.transport import Transport
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.runtime.base import Crowded

DUE = 3.0  # keepalives in the life of a lease
IDLE = 2.0  # lives after which a lease that nobody uses is left to expire
TRIES = 3  # keepalives of one renewal: the leader may change between a keepalive and its proof


def seconds(ttl: float) -> int:
    """Round a ttl up to what etcd counts in."""
    return math.ceil(ttl)


class Session:
    """One lease. Its time is counted from the sending of the last keepalive that was proven."""

    __slots__ = ("anchor", "dead", "gate", "gate_key", "granted", "lease", "size", "used")

    def __init__(self, size: int, lease: int, granted: int, anchor: float) -> None:
        """Take in a lease that was granted: `size` seconds were asked for, etcd may give more."""
        self.size = size
        self.lease = lease
        self.granted = float(granted)
        self.anchor = self.used = anchor
        self.gate_key = keys.gate(lease)
        self.gate = 0
        self.dead = False

    @property
    def until(self) -> float:
        """When etcd may drop it, unless it is kept alive."""
        return self.anchor + self.granted

    @property
    def due(self) -> float:
        """When it should be kept alive."""
        return self.anchor + self.granted / DUE

    def fresh(self, now: float) -> bool:
        """Return whether it was kept alive just now: the claims of one beat share a keepalive, and
        a renewal that has failed half-way does not begin with another.
        """
        return now < self.anchor + self.granted / 6.0

    def idle(self, now: float) -> bool:
        """Return whether nobody has put a claim on it for long."""
        return now > self.used + IDLE * self.granted

    def same(self) -> bytes:
        """Compare: the session lives, and its gate has not moved."""
        return compare(MOD, EQUAL, self.gate, self.gate_key)

    def move(self) -> bytes:
        """Move the gate, if there is one: without it the lease is gone, and its claims too."""
        there = compare(CREATE, GREATER, 0, self.gate_key)
        return inner(txn(there, [touch(self.gate_key)], []))


class Kept(NamedTuple):
    """A keepalive that was answered. Nothing may be counted on it before it is proven."""

    session: Session
    sent: float
    term: int

    def prove(self, term: int) -> bool:
        """Process the term of a read through the quorum that was sent after the answer came."""
        if not self.term or self.term != term:
            return False
        self.session.anchor = max(self.session.anchor, self.sent)
        return True


class Sessions:
    """The sessions of one client: at most one for each number of seconds."""

    def __init__(self, transport: Transport, base: int) -> None:
        """Begin with none. `base` is added to every ticket."""
        self._transport = transport
        self._base = base
        self._same_base = compare(MOD, EQUAL, 0, keys.BASE)
        self._opening = transport.mutex()
        self._by_size: dict[int, Session] = {}
        self._by_lease: dict[int, Session] = {}

    def __iter__(self) -> Iterator[Session]:
        """Go through those that live. A signal handler may have opened a second one of a size
        while the first was being opened: claims are on both.
        """
        return iter(list(self._by_lease.values()))

    def get(self, lease: int) -> Session | None:
        """Find the session of a lease."""
        return self._by_lease.get(lease)

    def ready(self, size: int, now: float) -> Session | None:
        """Return a session that has two thirds of its time, if there is one."""
        session = self._by_size.get(size)
        if session is None or now >= session.due:
            return None
        session.used = now
        return session

    async def open(self, size: int, deadline: float) -> Session:
        """Keep a session alive, or make one. Many who come at once get the same."""
        try:
            return await self._opening.hold(lambda: self._open(size, deadline), deadline)
        except Crowded:
            raise crowded() from None

    async def _open(self, size: int, deadline: float) -> Session:
        now = self._transport.now()
        session = self._by_size.get(size)
        if session is None or (now >= session.due and not await self.keep(session, deadline)):
            session = await self._make(size, deadline)
            self._by_size[size] = self._by_lease[session.lease] = session
        session.used = now
        return session

    async def _make(self, size: int, deadline: float) -> Session:
        sent = self._transport.now()
        said = numbers(await self._transport.call(GRANT, number(1, size), deadline))
        lease, granted = said.get(2, 0), said.get(3, 0)
        if lease == 0 or granted < size:
            raise Malformed(f"a lease {lease} of {granted} s, for {size} s")
        session = Session(size, lease, granted, sent)
        write = txn(b"", [put(session.gate_key, b"", session.lease), find(keys.BASE)], [])
        reply = done(await self._transport.call(TXN, write, deadline, harmless=True))
        session.gate = reply.revision
        (_, read) = reply.of(2)
        while True:
            stored = self.read_base(read)
            if stored >= self._base:
                return session
            write = txn(
                self.same_base(), [put(keys.BASE, b"%d" % self._base, 0)], [find(keys.BASE)]
            )
            reply = done(await self._transport.call(TXN, write, deadline))
            if reply.succeeded:
                self._base_is(reply.revision)
                return session
            (read,) = reply.of(1)

    def same_base(self) -> bytes:
        """Compare: nobody has named a higher base since."""
        return self._same_base

    def _base_is(self, changed: int) -> None:
        self._same_base = compare(MOD, EQUAL, changed, keys.BASE)

    def read_base(self, reply: bytes) -> int:
        """Learn the highest base; refuse to go on below it: our tokens would go back."""
        kvs = found(reply).kvs
        stored, changed = (keys.base(keys.BASE, kvs[0][4]), kvs[0][2]) if kvs else (0, 0)
        self._base_is(changed)
        if stored > self._base:
            raise EngineRefused(
                f"token_base={self._base} is below {stored}, which others use here: tokens would "
                f"go back. Connect with token_base={stored}."
            )
        return stored

    def read_gate(self, session: Session, reply: bytes) -> None:
        """Learn where a gate stands; without one, the session is over."""
        kvs = found(reply).kvs
        if kvs:
            session.gate = max(session.gate, kvs[0][2])
        else:
            self.lose(session)

    async def beat(self, session: Session, deadline: float) -> Kept | None:
        """Send a keepalive; None if the lease is gone. It is for the caller to prove it.

        Nothing else refreshes a lease: a claim that is put on it has what is left of it
        (trap 43).
        """
        sent = self._transport.now()
        reply = await self._transport.call(KEEP, number(1, session.lease), deadline)
        if numbers(reply).get(3, 0) <= 0:
            self.lose(session)
            return None
        return Kept(session, sent, term(reply))

    async def keep(self, session: Session, deadline: float) -> bool:
        """Keep a lease alive, and prove it; False if it is gone."""
        for _ in range(TRIES):
            kept = await self.beat(session, deadline)
            if kept is None:
                return False
            look = txn(b"", [find(session.gate_key)], [])
            reply = await self._transport.call(TXN, look, deadline, harmless=True)
            self.read_gate(session, done(reply).of(1)[0])
            if session.dead:
                return False
            if kept.prove(term(reply)):
                return True
        raise unproven()

    def lose(self, session: Session) -> None:
        """Note that a lease is gone, and everything on it."""
        session.dead = True
        self._by_lease.pop(session.lease, None)
        if self._by_size.get(session.size) is session:
            del self._by_size[session.size]

    def next(self) -> float:
        """Tell when one should be kept alive."""
        return min((session.due for session in self), default=math.inf)

    async def tend(self, now: float) -> None:
        """Keep those alive that are due, so that a claim finds one that has time; let go of idle
        ones: with claims on it, a session is kept by their renewals.
        """
        for session in self:
            if now >= session.due:
                if session.idle(now):
                    self.lose(session)
                else:
                    await self.keep(session, now + min(session.granted / 6.0, 1.0))

    async def revoke(self, deadline: float) -> None:
        """Release the leases; whatever is on them goes too."""
        for session in self:
            self.lose(session)
            with suppress(Leaseless):
                await self._transport.call(REVOKE, number(1, session.lease), deadline)


def unproven() -> EngineUnavailable:
    """Make the error for a keepalive of which nobody knows whether the present leader has it."""
    return EngineUnavailable(
        "etcd is changing its leader. lockfast could not confirm the renewal and tries again.",
        sent=False,
    )
