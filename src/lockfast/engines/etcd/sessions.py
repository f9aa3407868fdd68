"""Sessions: a session is one etcd lease for all claims of similar ttl, and a key, its gate.

A lease per lock would drown etcd's leader in keepalives (trap 35). The gate is a key on the same
lease, and every claim compares its mod revision. A client that resigns a claim in doubt moves the
gate, by writing it again. A copy of the claim that is still under way then does nothing (trap 47).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress

from lockfast.engines.etcd import keys
from lockfast.engines.etcd.failures import Leaseless, crowded
from lockfast.engines.etcd.messages import (
    EQUAL,
    GRANT,
    KEEP,
    MOD,
    REVOKE,
    TXN,
    Done,
    compare,
    done,
    find,
    found,
    put,
    term,
    txn,
)
from lockfast.engines.etcd.protobuf import Malformed, number, numbers
from lockfast.engines.etcd.session import Kept, Session
from lockfast.engines.etcd.transport import Transport
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.runtime.base import Crowded

TRIES = 3  # keepalives of one renewal: the leader may change between a keepalive and its proof


class Sessions:
    """The sessions of one client: at most one for each number of seconds."""

    def __init__(self, transport: Transport, base: int) -> None:
        """Start without sessions. `base` is added to every ticket."""
        self._transport = transport
        self._base = base
        self._same_base = compare(MOD, EQUAL, 0, keys.BASE)
        self._opening = transport.mutex()
        self._by_size: dict[int, Session] = {}
        self._by_lease: dict[int, Session] = {}

    def __iter__(self) -> Iterator[Session]:
        """Iterate over the live sessions. A signal handler may have opened a second one of a size
        while the first was being opened. Then both have claims.
        """
        return iter(list(self._by_lease.values()))

    def get(self, lease: int) -> Session | None:
        """Return the live session of a lease, or None."""
        return self._by_lease.get(lease)

    def ready(self, size: int, now: float) -> Session | None:
        """Return the session of a size if it has at least two thirds of its time left."""
        session = self._by_size.get(size)
        if session is None or now >= session.due:
            return None
        session.used = now
        return session

    async def open(self, size: int, deadline: float) -> Session:
        """Return a session, kept alive or new. Callers that come at once get the same one."""
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
        """Return the condition that the stored `token_base` has not changed since it was read."""
        return self._same_base

    def _base_is(self, changed: int) -> None:
        self._same_base = compare(MOD, EQUAL, changed, keys.BASE)

    def read_base(self, reply: bytes) -> int:
        """Return the stored base. Raise if ours is below it, because our tokens would go back."""
        kvs = found(reply).kvs
        stored, changed = (keys.base(keys.BASE, kvs[0][4]), kvs[0][2]) if kvs else (0, 0)
        self._base_is(changed)
        if stored > self._base:
            raise EngineRefused(
                f"token_base={self._base} is below {stored}, which other clients use here, so "
                f"tokens would go back. Connect with token_base={stored}."
            )
        return stored

    def read_gate(self, session: Session, reply: bytes) -> None:
        """Read the mod revision of a session's gate. Without a gate, the session is lost."""
        kvs = found(reply).kvs
        if kvs:
            session.gate = max(session.gate, kvs[0][2])
        else:
            self.lose(session)

    async def beat(self, session: Session, deadline: float) -> Kept | None:
        """Send a keepalive; None if the lease is gone. The caller must prove the result.

        Only a keepalive extends a lease. A claim that is put on it has the time that is left of it
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

    async def since(self, size: int, when: float, deadline: float) -> tuple[Session, Kept | None]:
        """Return a session that was kept alive, or opened, after `when`. If a keepalive is
        returned with it, that has to be proven first.
        """
        for _ in range(TRIES):
            session = await self.open(size, deadline)
            if session.anchor >= when:
                return session, None
            kept = await self.beat(session, deadline)
            if kept is not None:
                return session, kept
        raise unproven()

    async def outlasting(
        self, size: int, until: float, now: float, deadline: float
    ) -> tuple[Session, Kept | None]:
        """Return a session to which claims that are believed to live `until` then can be moved,
        and a keepalive of it that the move itself will prove, if it is not fresh.

        Its lease ends no earlier, as far as is proven before the move is sent. Otherwise a client
        that gets no reply to the move would count on the claim for longer than etcd keeps it.
        """
        for _ in range(TRIES):
            session = await self.open(size, deadline)
            kept = None
            if session.until < until:
                await self.keep(session, deadline)
            elif not session.fresh(now):
                kept = await self.beat(session, deadline)
            if not session.dead:
                return session, kept
        raise unproven()

    async def put_on(
        self, session: Session, moves: list[bytes], deadline: float, *, again: bool = True
    ) -> Done:
        """Move existing keys to the lease of a session, in one transaction. If the lease is gone,
        forget the session, so that the next attempt opens another one.

        `again`: send it again if it is not answered. Then an error that says that nothing was sent
        is about the last copy only.
        """
        request = txn(b"", moves, [])
        try:
            return done(await self._transport.call(TXN, request, deadline, harmless=again))
        except Leaseless:
            self.lose(session)
            raise

    def lose(self, session: Session) -> None:
        """Forget a session whose lease is gone, or is left to expire."""
        session.dead = True
        self._by_lease.pop(session.lease, None)
        if self._by_size.get(session.size) is session:
            self._by_size.pop(session.size, None)  # the stand-in may have found it gone as well

    def next(self) -> float:
        """Return when the next keepalive of any session is due."""
        return min((session.due for session in self), default=math.inf)

    async def tend(self, now: float) -> None:
        """Keep the sessions alive that are due, so that the next claim finds one with time left.
        Let idle ones expire. A session with claims is never idle, because their renewals use it.
        """
        for session in self:
            if now >= session.due:
                if session.idle(now):
                    self.lose(session)
                else:
                    await self.keep(session, now + min(session.granted / 6.0, 1.0))

    async def revoke(self, deadline: float) -> None:
        """Revoke all leases. etcd deletes the keys on them."""
        for session in self:
            self.lose(session)
            with suppress(Leaseless):
                await self._transport.call(REVOKE, number(1, session.lease), deadline)


def unproven() -> EngineUnavailable:
    """Return the error for a keepalive that the present leader may not have applied."""
    return EngineUnavailable(
        "etcd is changing its leader. lockfast could not confirm the renewal and tries again.",
        sent=False,
    )
