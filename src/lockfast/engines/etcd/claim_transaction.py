"""Encodes a claim as one transaction, with or without contention.

Everything except the id and the payload is encoded once per lock and session. That works because
an id always has 32 bytes, so every length around it is known.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from lockfast.core import record
from lockfast.engines.etcd import keys
from lockfast.engines.etcd.messages import (
    CREATE,
    EQUAL,
    HEAD,
    LAST_TWO,
    LESS,
    MOD,
    between,
    compare,
    done,
    find,
    found,
    inner,
    put,
    put_at,
    revision,
    rows,
    txn,
)
from lockfast.engines.etcd.protobuf import Malformed, text, varint
from lockfast.engines.etcd.session import Session, seconds
from lockfast.port import Kind, Shape

SAMPLE = b"\0" * 32  # stands for an id: an encoded name has no such bytes
_UNBURIED = compare(CREATE, EQUAL, 0, keys.TOMBS + SAMPLE).split(SAMPLE)


class Form:
    """The encoded parts that all claims of one shape have in common."""

    def __init__(self, shape: Shape) -> None:
        """Encode the parts once."""
        self.shape = shape
        self.prefix = keys.CLAIMS + keys.encoded(shape.name) + b"/"
        self.end = keys.end(self.prefix)
        self.size = seconds(shape.ttl)
        self.wait_size = seconds(shape.wait_ttl)
        self.head = record.head(shape)
        self.empty = compare(CREATE, EQUAL, 0, self.prefix, self.end)
        # Every record in the queue has our format and our kind: it begins as ours does. Records of
        # two formats are no single range: a version that reads both has to widen this condition,
        # and leaves the kinds to the check after the put (`claiming`).
        kind = b"v%d %d" % (record.FORMAT, shape.kind)
        self.alike = between(kind + b" ", kind + b"!", self.prefix, self.end)
        self.queue = find(self.prefix, self.end)
        # A new claim on a lock needs only the two ends of its queue, however long that is. One on
        # a semaphore of one permit needs all: claims of other capacities may be ahead of it.
        self.look = (
            [find(self.prefix, self.end, HEAD), find(self.prefix, self.end, LAST_TWO)]
            if shape.kind is Kind.LOCK
            else [self.queue]
        )
        key = self.prefix + SAMPLE
        self.absent = compare(CREATE, EQUAL, 0, key).split(SAMPLE)
        self.put = text(1, key).split(SAMPLE)[0]
        self.looks = b"".join(text(2, each) for each in self.look)
        self.written: tuple[object, tuple[bytes, bytes]] = (None, (b"", b""))

    def key(self, id_: str) -> bytes:
        """Return the key of a claim."""
        return self.prefix + id_.encode()


@lru_cache(maxsize=4096)
def form_of(shape: Shape) -> Form:
    """Return the form of a shape, from a cache."""
    return Form(shape)


def _pieces(
    form: Form, holder: Session, waiter: Session | None, same_base: bytes
) -> tuple[bytes, bytes]:
    """Return the conditions of a claim that is sent alone. They change with the gates only."""
    now = (holder, holder.gate, waiter, waiter.gate if waiter is not None else 0, same_base)
    known, pieces = form.written
    if known != now:
        pieces = (
            holder.same() + same_base,
            waiter.same() + same_base if waiter is not None else b"",
        )
        form.written = (now, pieces)
    return pieces


def claim(  # noqa: PLR0913, PLR0917  # a hot path: no bundle
    form: Form,
    id_: bytes,
    payload: bytes,
    holder: Session,
    waiter: Session | None,
    same_base: bytes,
) -> bytes:
    """Return the transaction that puts a claim: on the holder's lease if the name is free, else on
    the waiter's, if there is one and all claims ahead are of the same kind and format.
    """
    gates, waiters_gate = _pieces(form, holder, waiter, same_base)
    return gates + _claim(form, id_, payload, holder, waiter, waiters_gate)


def _claim(  # noqa: PLR0913, PLR0917  # see `claim`
    form: Form,
    id_: bytes,
    payload: bytes,
    holder: Session,
    waiter: Session | None,
    waiters_gate: bytes,
) -> bytes:
    """Return the same transaction, without the conditions on the holder's gate and the base."""
    entry = _entry(form, id_, payload)
    before, after = _UNBURIED
    unburied = before + id_ + after
    request = form.empty + unburied + text(2, text(2, entry + holder.on))
    if waiter is None:
        return request
    before, after = form.absent
    conditions = waiters_gate + form.alike + unburied + before + id_ + after
    return request + text(3, inner(conditions + text(2, text(2, entry + waiter.on)) + form.looks))


def _entry(form: Form, id_: bytes, payload: bytes) -> bytes:
    """Return the claim's key and value, as a put has them."""
    value = form.head + payload
    return form.put + id_ + b"\x12" + varint(len(value)) + value


def if_free(form: Form, id_: bytes, payload: bytes, holder: Session) -> tuple[bytes, bytes]:
    """Return the conditions under which a claim's name is free, and the operation that puts it on
    the holder's lease. Without the conditions on the gate and the base.
    """
    before, after = _UNBURIED
    conditions = form.empty + before + id_ + after
    return conditions, text(2, _entry(form, id_, payload) + holder.on)


def part_of_batch(  # noqa: PLR0913  # see `claim`
    form: Form, id_: bytes, payload: bytes, holder: Session, waiter: Session | None, *, queue: bool
) -> bytes:
    """Return a claim as an operation of a transaction with `batch_conditions`. Without `queue`, it
    reads the queue if the claim is not put.
    """
    request = _claim(form, id_, payload, holder, waiter if queue else None, b"")
    return inner(request if queue else request + text(3, form.queue))


def learn(form: Form, id_: bytes, holder: Session, waiter: Session | None) -> list[bytes]:
    """Return the reads that show why a claim was not put: tombstone, queue, base and gates."""
    gate = (waiter or holder).gate_key
    tomb = find(keys.TOMBS + id_)
    return [tomb, form.queue, find(keys.BASE), find(holder.gate_key), find(gate)]


def attempt(form: Form, id_: bytes, payload: bytes, holder: Session, same_base: bytes) -> bytes:
    """Return the transaction for a claim without waiting. Often the name is taken, so if the claim
    is not put, the same transaction reads why.
    """
    reads = learn(form, id_, holder, None)
    request = claim(form, id_, payload, holder, None, same_base)
    return request + b"".join(text(3, each) for each in reads)


def squeeze(  # noqa: PLR0913, PLR0917  # see `claim`
    form: Form, id_: str, payload: bytes, holder: Session, conditions: bytes, revision: int
) -> bytes:
    """Return the transaction for a claim beside others, if none was written since a revision.
    `conditions`: on the gate and the base, or none if the transaction around it has them.
    """
    key = form.key(id_)
    conditions += compare(CREATE, EQUAL, 0, key)
    conditions += compare(CREATE, EQUAL, 0, keys.TOMBS + id_.encode())
    conditions += compare(MOD, LESS, revision + 1, form.prefix, form.end)
    return txn(conditions, [put(key, form.head + payload, holder.lease), form.queue], [])


class Ends(NamedTuple):
    """The two ends of a lock's queue: all that a new claim needs to know of it."""

    revision: int
    """The create revision of the new claim."""
    head: keys.Row
    ahead: int
    before: tuple[bytes, int] | None
    """Key and create revision of the claim just before it."""


class Claimed(NamedTuple):
    """How a claim was put."""

    at: int
    """The revision of the store, not of the claim; 0 if the name was free."""
    alone: int = 0
    """The claim's create revision if the name was free, else 0."""
    ends: Ends | None = None
    queue: list[keys.Row] | None = None
    """If it was put behind others, either `ends` or `queue` is there."""


def claimed(reply: bytes, form: Form) -> Claimed | None:
    """Decode the reply to a claim. None: it was not put."""
    said = done(reply)
    if said.succeeded:
        return Claimed(0, alone=put_at(said.of(1)[0]))
    if len(said.replies) != 1:  # there was no waiter's lease to try
        return None
    deep = done(said.replies[0])
    if not deep.succeeded:
        return None
    at = said.revision
    if form.shape.kind is not Kind.LOCK:
        return Claimed(at, queue=rows(found(deep.of(2)[1])))
    _, head, last = map(found, deep.of(3))
    tail = [(key, revision(created)) for key, created, *_ in last.kvs]
    if not head.kvs or not tail:
        raise Malformed("a queue without the claim that was put")
    before = tail[1] if len(tail) > 1 else None
    return Claimed(at, ends=Ends(tail[0][1], rows(head)[0], last.total - 1, before))


def put_alone(reply: bytes) -> Claimed:
    """Decode the reply to the operation of `if_free`."""
    return Claimed(0, alone=put_at(reply))


def squeezed(reply: bytes) -> Claimed | None:
    """Decode the reply to a claim beside others. None: it was not put."""
    said = done(reply)
    if not said.succeeded:
        return None
    return Claimed(said.revision, queue=rows(found(said.of(2)[1])))
