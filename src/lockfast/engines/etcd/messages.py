"""Encodes and decodes etcd's messages by field number: only those that lockfast needs."""

from __future__ import annotations

from typing import NamedTuple

from lockfast.engines.etcd import keys
from lockfast.engines.etcd.protobuf import Malformed, fields, number, numbers, part, parts, text

TXN = "/etcdserverpb.KV/Txn"
RANGE = "/etcdserverpb.KV/Range"
DELETE = "/etcdserverpb.KV/DeleteRange"
GRANT = "/etcdserverpb.Lease/LeaseGrant"
# etcd defines a stream here. lockfast sends one request and reads one reply, and on the wire that
# is the same.
KEEP = "/etcdserverpb.Lease/LeaseKeepAlive"
REVOKE = "/etcdserverpb.Lease/LeaseRevoke"
TIME_TO_LIVE = "/etcdserverpb.Lease/LeaseTimeToLive"
AUTHENTICATE = "/etcdserverpb.Auth/Authenticate"
MEMBERS = "/etcdserverpb.Cluster/MemberList"
STATUS = "/etcdserverpb.Maintenance/Status"
WATCH = "/etcdserverpb.Watch/Watch"
METHODS = (
    *(TXN, RANGE, DELETE, GRANT, KEEP, REVOKE, TIME_TO_LIVE, AUTHENTICATE),
    *(MEMBERS, STATUS),
)

EQUAL, GREATER, LESS = 0, 1, 2
CREATE, MOD, VALUE = 1, 2, 3
ASCENDING, DESCENDING = 1, 2
BY_CREATION = 2
MOST_REVISIONS = 2**52


# --- requests -------------------------------------------------------------------------------------


def compare(what: int, how: int, revision: int, key: bytes, end: bytes = b"") -> bytes:
    """Return a condition on the create or mod revision of a key, or of each key in a range.

    A key that does not exist has revision 0, and so has an empty range.
    """
    said = (
        number(1, how)
        + number(2, what)
        + text(3, key)
        + number(5 if what == CREATE else 6, revision)
    )
    return text(1, said + text(64, end) if end else said)


def between(low: bytes, high: bytes, key: bytes, end: bytes) -> bytes:
    """Return the condition that a range is not empty, and all values are between two limits."""

    def value(how: int, limit: bytes) -> bytes:
        said = number(1, how) + number(2, VALUE) + text(3, key) + text(7, limit)
        return text(1, said + text(64, end))

    return value(GREATER, low) + value(LESS, high)


def put(key: bytes, value: bytes, lease: int) -> bytes:
    """Return the operation of a transaction that writes a key."""
    return text(2, text(1, key) + text(2, value) + number(3, lease))


def touch(key: bytes) -> bytes:
    """Return the operation that writes an existing key again, empty, on the lease that it has."""
    return text(2, text(1, key) + number(6, 1))


class Slice(NamedTuple):
    """What to read of a range: how many keys, in which order of creation. 0: all, any order."""

    limit: int = 0
    order: int = 0
    bare: bool = False
    """Whether to leave the values out."""
    local: bool = False
    """Whether the asked member answers alone, without a majority: consistent, perhaps old."""


ALL = Slice()
HEAD = Slice(limit=1, order=ASCENDING)
LAST_TWO = Slice(limit=2, order=DESCENDING, bare=True)


def find(key: bytes, end: bytes = b"", what: Slice = ALL) -> bytes:
    """Return the operation of a transaction that reads a range."""
    return text(1, query(key, end, what))


def query(key: bytes, end: bytes = b"", what: Slice = ALL) -> bytes:
    """Return the request that reads a range."""
    said = text(1, key)
    if end:
        said += text(2, end)
    if what.limit:
        said += number(3, what.limit)
    if what.order:
        said += number(5, what.order) + number(6, BY_CREATION)
    if what.local:
        said += number(7, 1)
    if what.bare:
        said += number(8, 1)
    return said


def delete(key: bytes) -> bytes:
    """Return the operation of a transaction that deletes a key."""
    return text(3, text(1, key))


def txn(compares: bytes, then: list[bytes], otherwise: list[bytes]) -> bytes:
    """Return a transaction: `then` if all `compares` hold, else `otherwise`, in one atomic step."""
    return b"".join(
        [compares, *(text(2, each) for each in then), *(text(3, each) for each in otherwise)]
    )


def inner(transaction: bytes) -> bytes:
    """Return a transaction as an operation of another one."""
    return text(4, transaction)


def watch(ident: int, key: bytes, end: bytes, revision: int) -> bytes:
    """Return the request to watch deletions from a revision on. `ident` is unique in its stream."""
    said = text(1, key) + number(3, revision) + text(5, b"\0") + number(7, ident)
    return text(1, said + text(2, end) if end else said)


def unwatch(ident: int) -> bytes:
    """Return the request to cancel a watch."""
    return text(2, number(1, ident))


# --- replies --------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The reply to a range."""

    kvs: list[tuple[bytes, int, int, int, bytes]]
    """Of each key: the key, create revision, mod revision, lease, value."""
    total: int
    """How many keys the range has, whether or not they were read."""


class Done(NamedTuple):
    """The reply to a transaction."""

    header: bytes
    succeeded: bool
    replies: list[bytes]

    @property
    def revision(self) -> int:
        """The revision of the store. It is not a token (trap 28)."""
        return numbers(self.header).get(3, 0)

    def of(self, count: int) -> list[bytes]:
        """Return the replies to the operations. Raise `Malformed` if they are not `count`."""
        if len(self.replies) != count:
            raise Malformed(f"{len(self.replies)} replies to {count} operations")
        return self.replies

    @property
    def term(self) -> int:
        """The raft term of the last entry that the member which answered has applied."""
        return numbers(self.header).get(4, 0)


def kv(message: bytes) -> tuple[bytes, int, int, int, bytes]:
    """Decode a key: the key, its create revision, mod revision, lease and value."""
    key = value = b""
    created = changed = lease = 0
    for field, said in fields(message):
        if isinstance(said, bytes):
            if field == 1:
                key = said
            elif field == 5:  # noqa: PLR2004  # by field number
                value = said
        elif field == 2:  # noqa: PLR2004  # see above
            created = said
        elif field == 3:  # noqa: PLR2004  # see above
            changed = said
        elif field == 6:  # noqa: PLR2004  # see above
            lease = said
    return key, created, changed, lease, value


def found(message: bytes) -> Found:
    """Decode the reply to the read of a range."""
    kvs = []
    count = 0
    for field, said in fields(message):
        if field == 2 and isinstance(said, bytes):  # noqa: PLR2004  # by field number
            kvs.append(kv(said))
        elif field == 4 and isinstance(said, int):  # noqa: PLR2004  # see above
            count = said
    return Found(kvs, count)


def rows(reply: Found) -> list[keys.Row]:
    """Decode claims, and return them in the order of their creation."""
    return sorted(
        (
            keys.row(key, revision(created), mod, lease, value)
            for key, created, mod, lease, value in reply.kvs
        ),
        key=lambda row: row.revision,
    )


def revision(said: int) -> int:
    """Check and return a revision that becomes a token: above 0, and with any base below 2**53."""
    if not 0 < said < MOST_REVISIONS:
        raise Malformed(f"a revision of {said}")
    return said


def put_at(message: bytes) -> int:
    """Return the revision at which a put wrote its key: the reply to the put has it in a header of
    its own. If the key is new, this is its create revision.
    """
    return revision(numbers(part(message, 1)).get(3, 0))


def done(message: bytes) -> Done:
    """Decode the reply to a transaction. Each operation's reply is a field in its own message."""
    header, succeeded, replies = b"", False, []
    for field, said in fields(message):
        if field == 3 and isinstance(said, bytes):  # noqa: PLR2004  # by field number
            replies += [each for _, each in fields(said) if isinstance(each, bytes)]
        elif field == 1 and isinstance(said, bytes):
            header = said
        elif field == 2:  # noqa: PLR2004  # see above
            succeeded = bool(said)
    return Done(header, succeeded, replies)


def term(message: bytes) -> int:
    """Return the raft term in the header of any reply; 0 if there is none."""
    headers = parts(message, 1)
    return numbers(headers[0]).get(4, 0) if headers else 0


def deleted(message: bytes) -> bool:
    """Return whether a deletion found a key to delete."""
    return numbers(message).get(2, 0) > 0


class Heard(NamedTuple):
    """A message on a watch."""

    ident: int
    """The watch that it is about; -1 for a watch that etcd did not begin."""
    begun: bool
    ended: bool
    """Canceled, because its revision was compacted, or because lockfast canceled it."""
    refused: str | None
    """The reason, if etcd canceled the watch for any other reason."""
    gone: list[tuple[bytes, int]]
    """The deleted keys, each with the revision of its deletion."""


def heard(message: bytes) -> Heard:
    """Decode a message on a watch."""
    said = numbers(message)
    events = [kv(part(event, 2)) for event in parts(message, 11)]
    canceled, compacted = bool(said.get(4, 0)), bool(said.get(5, 0))
    why = b" ".join(parts(message, 6)).decode(errors="replace")
    # The answer to our own cancellation has no reason. It must not make us replace the stream.
    refused = why if canceled and not compacted and why else None
    return Heard(
        said.get(2, 0),
        bool(said.get(3, 0)) and not canceled,
        canceled and refused is None,
        refused,
        [(each[0], each[2]) for each in events],
    )
