"""One claim of this client that is stored in etcd."""

from __future__ import annotations

from lockfast.engines.etcd.claim_transaction import Form
from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.messages import CREATE, EQUAL, compare, inner, put, txn
from lockfast.engines.etcd.session import Session
from lockfast.port import Ask


class OwnClaim:
    """A claim of this client that is stored in etcd."""

    __slots__ = (
        *("_unchanged", "alone", "form", "id", "key", "payload", "revision", "session", "until"),
    )

    def __init__(self, ask: Ask, form: Form, revision: int, session: Session) -> None:
        """Describe a stored claim. `revision`: its create revision, the ticket without the base."""
        self.id = ask.id
        self.form = form
        self.payload = ask.payload
        self.key = form.key(ask.id)
        self.revision = revision
        self.session = session
        self.until = 0.0
        """When its time is over, by the local clock, unless it is renewed."""
        self.alone = False
        """Whether it was the only claim on its name when its queue was last read or compared."""
        self._unchanged = b""

    def unchanged(self) -> bytes:
        """Return the condition that the claim is there, and is the only one on its name: all keys
        of the name have its create revision. A name without keys has revision 0.
        """
        if not self._unchanged:
            form = self.form
            self._unchanged = compare(CREATE, EQUAL, self.revision, form.prefix, form.end)
        return self._unchanged

    def astray(self) -> bool:
        """Return whether the waiters' lease, which the claim was on, is gone. If the reply to its
        move to the other lease was lost, it may be there, and nothing else would end it.
        """
        return self.session.dead and self.session.size != self.form.size

    def row(self) -> Row:
        """Return the claim as etcd stores it."""
        shape = self.form.shape
        size = (shape.kind, shape.capacity, shape.weight, shape.ttl)
        return Row(self.key, self.revision, self.session.lease, *size, self.payload)

    def put(self, session: Session) -> bytes:
        """Return the operation that moves the claim, if it exists, to another lease. It keeps its
        ticket.
        """
        there = compare(CREATE, EQUAL, self.revision, self.key)
        return inner(txn(there, [put(self.key, self.form.head + self.payload, session.lease)], []))
