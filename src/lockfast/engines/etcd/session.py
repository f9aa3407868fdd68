"""One session, which is one etcd lease, and the proof that it was kept alive.

A keepalive does not go through raft. A leader that was paused or cut off answers it before it
learns that it was replaced, and its successor does not know of the extension. So an answered
keepalive counts only once it is proven: a read through the quorum, sent after the answer was
received, must carry the same raft term T in its header.

Why that is enough. etcd takes the term in a header from the last entry that the asked member has
applied. For a keepalive it does so before it extends the lease, or passes it on to the leader.
1. The asked member had applied an entry of T. So the leader of T was elected by then, and the
   member itself was no longer the leader of an earlier term. If it passes a keepalive on, then to
   the leader of T or of a later term.
2. After the read was sent, a majority confirmed a leader for it. The member that answered had
   applied an entry of that leader's term, so that term is at most T. So no leader of a later term
   was elected before the read was sent, which is after the keepalive was answered.
3. So the leader of T extended the lease. It revokes the lease no earlier than its whole duration
   after the keepalive was sent. A later leader was elected after that, and restarts every lease.
The term of a serializable read proves nothing, because no majority is asked. A term of 0 comes from
a member that has applied nothing since its start.

Two gaps remain in etcd (3.4 to 3.7). A member notes the index of an entry that it has applied and
then, in the next instruction, its term. A read that is answered between the two carries the term
before. And a member that receives a snapshot keeps its old term until the next entry. Two snapshots
in a row, one on each side of a keepalive, would hide a leader.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from lockfast.engines.etcd import keys
from lockfast.engines.etcd.messages import CREATE, EQUAL, GREATER, MOD, compare, inner, touch, txn
from lockfast.engines.etcd.protobuf import number

DUE = 3.0  # keepalives in the duration of a lease
IDLE = 2.0  # durations after which a lease that nobody uses is left to expire


def seconds(ttl: float) -> int:
    """Return a ttl rounded up to whole seconds, in which etcd counts."""
    return math.ceil(ttl)


class Session:
    """One lease. Its time is counted from the sending of the last keepalive that was proven."""

    __slots__ = ("anchor", "dead", "gate", "gate_key", "granted", "lease", "on", "size", "used")

    def __init__(self, size: int, lease: int, granted: int, anchor: float) -> None:
        """Describe a lease: `size` seconds were asked for, and etcd `granted` as many or more."""
        self.size = size
        self.lease = lease
        self.granted = float(granted)
        self.anchor = self.used = anchor
        self.on = number(3, lease)  # what puts a key on the lease
        self.gate_key = keys.gate(lease)
        self.gate = 0
        self.dead = False

    @property
    def until(self) -> float:
        """When etcd may drop the lease, unless it is kept alive."""
        return self.anchor + self.granted

    @property
    def due(self) -> float:
        """When the next keepalive is due."""
        return self.anchor + self.granted / DUE

    def fresh(self, now: float) -> bool:
        """Return whether it was kept alive just now. So the claims that the heart renews together
        share a keepalive, and a renewal that failed half-way is repeated without another one.
        """
        return now < self.anchor + self.granted / 6.0

    def idle(self, now: float) -> bool:
        """Return whether no claim has used it for `IDLE` durations."""
        return now > self.used + IDLE * self.granted

    def same(self) -> bytes:
        """Return the condition that the session lives and its gate has not moved."""
        return compare(MOD, EQUAL, self.gate, self.gate_key)

    def move(self) -> bytes:
        """Return the operation that moves the gate. Without a gate, lease and claims are gone."""
        there = compare(CREATE, GREATER, 0, self.gate_key)
        return inner(txn(there, [touch(self.gate_key)], []))


class Kept(NamedTuple):
    """A keepalive that was answered. Nothing may rely on it before it is proven."""

    session: Session
    sent: float
    term: int

    def prove(self, term: int) -> bool:
        """Extend the session and return True if `term` proves the keepalive. `term` must come from
        a read through the quorum that was sent after the keepalive was answered.
        """
        if not self.term or self.term != term:
            return False
        self.session.anchor = max(self.session.anchor, self.sent)
        return True
