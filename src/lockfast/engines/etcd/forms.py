"""The claim as it is sent: one transaction, with or without contention."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from lockfast.engines.etcd import keys
from lockfast.engines.etcd.messages import (
    CREATE,
    EQUAL,
    HEAD,
    LAST_TWO,
    LESS,
    MOD,
    Done,
    compare,
    done,
    find,
    found,
    inner,
    put,
    rows,
    txn,
)
from lockfast.engines.etcd.sessions import Session, seconds
from lockfast.port import Shape


class Form:
    """What all claims of one shape have in common."""

    def __init__(self, shape: Shape) -> None:
        """Write it once."""
        self.shape = shape
        self.prefix = keys.CLAIMS + keys.encoded(shape.name) + b"/"
        self.end = keys.end(self.prefix)
        self.size = seconds(shape.ttl)
        self.wait_size = seconds(shape.wait_ttl)
        self.head = keys.value(shape, b"")
        self.empty = compare(CREATE, EQUAL, 0, self.prefix, self.end)
        self.queue = find(self.prefix, self.end)
        # Of a lock's queue, two ends are all that a newcomer needs, however long it is.
        self.look = (
            [find(self.prefix, self.end, HEAD), find(self.prefix, self.end, LAST_TWO)]
            if shape.capacity == 1
            else [self.queue]
        )

    def key(self, id_: str) -> bytes:
        """Name the key of a claim."""
        return self.prefix + id_.encode()


@lru_cache(maxsize=4096)
def form_of(shape: Shape) -> Form:
    """Find the form of a shape."""
    return Form(shape)


def claim(  # noqa: PLR0913, PLR0917  # a hot path: no bundle
    form: Form, id_: str, payload: bytes, holder: Session, waiter: Session | None, same_base: bytes
) -> bytes:
    """Claim: on the holder's lease if nobody is there, else on the waiter's, if there is one.

    Whatever kept both from being done is read along.
    """
    key, value = form.key(id_), form.head + payload
    reads = [find(holder.gate_key), find(keys.BASE), form.queue]
    if waiter is not None:
        reads.append(find(waiter.gate_key))
        absent = compare(CREATE, EQUAL, 0, key)
        then = [put(key, value, waiter.lease), *form.look]
        reads = [inner(txn(waiter.same() + same_base + absent, then, reads))]
    conditions = holder.same() + same_base + form.empty
    return txn(conditions, [put(key, value, holder.lease), form.queue], reads)


def squeeze(  # noqa: PLR0913, PLR0917  # see `claim`
    form: Form, id_: str, payload: bytes, holder: Session, same_base: bytes, revision: int
) -> bytes:
    """Claim beside those who were there at a revision, if nobody has come since."""
    key = form.key(id_)
    conditions = holder.same() + same_base + compare(CREATE, EQUAL, 0, key)
    conditions += compare(MOD, LESS, revision + 1, form.prefix, form.end)
    then = [put(key, form.head + payload, holder.lease), form.queue]
    return txn(conditions, then, [find(holder.gate_key), find(keys.BASE), form.queue])


class Claimed(NamedTuple):
    """What became of a claim."""

    revision: int
    """That of the store, not the claim's."""
    waiting: bool
    """Whether it was put on the waiter's lease."""
    queue: list[keys.Row] | None
    """The whole queue with the claim in it, if it was put, and if the whole was read."""
    ends: tuple[keys.Row, int, list[tuple[bytes, int]]] | None
    """Of a lock's queue: the head, how many are ahead, the claim itself and the one before it."""
    reads: list[bytes] | None
    """What was read instead of putting it."""


def claimed(reply: bytes, form: Form, *, nested: bool) -> Claimed:
    """Read the reply to a claim."""
    said = done(reply)
    if said.succeeded:
        return Claimed(said.revision, False, rows(found(said.replies[1])), None, None)  # noqa: FBT003  # by position, a hot path
    if not nested:
        return Claimed(said.revision, False, None, None, said.replies)  # noqa: FBT003  # see above
    deep: Done = done(said.replies[0])
    if not deep.succeeded:
        return Claimed(said.revision, False, None, None, deep.replies)  # noqa: FBT003  # see above
    if form.shape.capacity != 1:
        return Claimed(said.revision, True, rows(found(deep.replies[1])), None, None)  # noqa: FBT003  # see above
    head, last = found(deep.replies[1]), found(deep.replies[2])
    tail = [(key, created) for key, created, *_ in last.kvs]
    return Claimed(said.revision, True, None, (rows(head)[0], last.total - 1, tail), None)  # noqa: FBT003  # see above
