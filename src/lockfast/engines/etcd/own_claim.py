"""One claim of this client that is stored in etcd."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from lockfast.core import record
from lockfast.engines.etcd.claim_transaction import Form
from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.messages import (
    EQUAL,
    MOD,
    Done,
    compare,
    delete,
    done,
    find,
    found,
    inner,
    put,
    rows,
    txn,
)
from lockfast.engines.etcd.session import Session
from lockfast.port import Ask


class Over(NamedTuple):
    """The key of a claim that must be deleted, unless another engine has adopted it."""

    key: bytes
    mod: int
    """Which put of this engine was the last that was answered; 0: none."""
    epoch: int

    def end(self) -> bytes:
        """Return the operation that deletes the key if it is as this engine has put it, and reads
        it otherwise.
        """
        same = compare(MOD, EQUAL, self.mod, self.key)
        return inner(txn(same, [delete(self.key)], [find(self.key)]))

    def left(self, reply: bytes, leases: Container[int]) -> Row | None:
        """Return what is left after that: a put of this engine that was not answered. If it was for
        an earlier connection, the claim is on one of `leases`, which are this engine's.
        """
        said = done(reply)
        for row in [] if said.succeeded else rows(found(said.of(1)[0])):
            if row.epoch == self.epoch or (row.epoch < self.epoch and row.lease in leases):
                return row
        return None


class OwnClaim:
    """A claim that this engine has put into etcd last, as far as it knows."""

    __slots__ = (
        *("_unchanged", "alone", "epoch", "form", "id", "key", "mod", "payload", "revision"),
        *("session", "until"),
    )

    def __init__(self, ask: Ask, form: Form, revision: int, session: Session, mod: int = 0) -> None:
        """Describe a stored claim.

        `revision`: its create revision, the ticket without the base. `mod`: its mod revision, if
        it was put again since.
        """
        self.id = ask.id
        self.epoch = ask.epoch
        self.mod = mod or revision
        self.form = form
        self.payload = ask.payload
        self.key = form.key(ask.id)
        self.revision = revision
        self.session = session
        self.until = 0.0
        """When its time is over, by the local clock, unless it is renewed."""
        self.alone = False
        """Whether it was the only claim on its name when its queue was last read or compared."""
        self._unchanged = (0, b"")

    def unchanged(self) -> bytes:
        """Return the condition that the claim is there as this engine has put it, and is the only
        one on its name: all keys of the name have its mod revision. A name without keys has
        revision 0. Claims that are put together have the same, but then none of them was alone.
        """
        if self._unchanged[0] != self.mod:
            form = self.form
            self._unchanged = self.mod, compare(MOD, EQUAL, self.mod, form.prefix, form.end)
        return self._unchanged[1]

    def over(self, *, sure: bool = True) -> Over:
        """Return what has to be deleted. `sure`: every put of this engine was answered."""
        return Over(self.key, self.mod if sure else 0, self.epoch)

    def astray(self) -> bool:
        """Return whether the waiters' lease, which the claim was on, is gone. If the reply to its
        move to the other lease was lost, it may be there, and nothing else would end it.
        """
        return self.session.dead and self.session.size != self.form.size

    def stored_as(self, row: Row) -> bool:
        """Return whether a row is this claim. After it was removed, a late copy at another engine
        may have put one with the same key.
        """
        return row.key == self.key and row.revision == self.revision

    def row(self) -> Row:
        """Return the claim as etcd stores it."""
        shape = self.form.shape
        size = (shape.kind, shape.capacity, shape.weight, shape.ttl)
        lease = self.session.lease
        return Row(self.key, self.revision, lease, *size, self.payload, self.mod, self.epoch)

    def put(self, session: Session) -> bytes:
        """Return the operation that moves the claim to another lease if it is as this engine has
        put it, and reads it otherwise. It keeps its ticket.
        """
        return self._put(session, b"", self.key)

    def adopt(self, session: Session) -> bytes:
        """Return the operation that does so with a claim of another lease, which was read with this
        mod revision, if the gate of the session has not moved. Otherwise it reads the gate.
        """
        return self._put(session, session.same(), session.gate_key)

    def _put(self, session: Session, conditions: bytes, else_read: bytes) -> bytes:
        conditions += compare(MOD, EQUAL, self.mod, self.key)
        value = self.form.head + record.with_epoch(self.epoch, self.payload)
        return inner(txn(conditions, [put(self.key, value, session.lease)], [find(else_read)]))

    def moved(self, said: Done, at: int, session: Session) -> bool:
        """Read the reply to that, in a transaction at revision `at`. Return whether the claim is
        still there. If it is, but not on that lease, an earlier put was not answered.
        """
        if said.succeeded:
            self.mod, self.session = at, session
            return True
        queue = rows(found(said.of(1)[0]))
        if not queue or queue[0].revision != self.revision or queue[0].epoch > self.epoch:
            return False
        self.mod = queue[0].mod
        if queue[0].lease == session.lease:
            self.session = session
        return True
