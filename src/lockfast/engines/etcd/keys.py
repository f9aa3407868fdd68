"""Encodes names and claims as keys and values. Each name has a path of its own.

| key | what |
| --- | --- |
| `lockfast/claim/NAME/ID` | a claim: a record of `core.record`, on its client's lease |
| `lockfast/gate/LEASE` | the gate of a client's session, on the same lease |
| `lockfast/tomb/ID` | the tombstone of a claim, on a lease that nobody keeps alive |
| `lockfast/break/NAME/ID` | the record of a break, on a lease of its own |
| `lockfast/base` | the highest token_base that any client has named |
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from lockfast.core import record
from lockfast.errors import EngineRefused
from lockfast.port import LONGEST, LONGEST_WAIT, Kind

CLAIMS = b"lockfast/claim/"
GATES = b"lockfast/gate/"
TOMBS = b"lockfast/tomb/"
BREAKS = b"lockfast/break/"
BASE = b"lockfast/base"

_special = re.compile(rb"[\x00-\x1f%/\x7f]")
_key = re.compile(re.escape(CLAIMS) + rb"[^/]+/[0-9a-f]{32}")
_head = re.compile(rb"(?:[^ ]{1,10} ){5}")  # a record of our format up to its payload
_unnumbered = re.compile(rb"\d{1,10} \d{1,10} \d{1,8} ")  # how a record of format 0 begins


def encoded(name: str) -> bytes:
    """Encode a name byte by byte, so that a prefix of a name is a prefix of its key."""
    return _special.sub(lambda found: b"%%%02X" % found[0][0], name.encode())


def end(prefix: bytes) -> bytes:
    """Return the first key after all keys with a prefix, which must end in a byte below 255."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def gate(lease: int) -> bytes:
    """Return the key of a session's gate."""
    return GATES + b"%x" % lease


class Row(NamedTuple):
    """A claim, as it is stored. One that this version cannot read has no kind and no weight."""

    key: bytes
    revision: int
    """The create revision: its ticket, without the base."""
    lease: int
    kind: Kind | None
    capacity: int
    weight: int
    ttl: float
    payload: bytes
    """Without a kind, this is all that is stored."""
    mod: int = 0
    """The mod revision: which put it was that wrote the claim last."""
    epoch: int = 0
    """The connection to the service that it was written for. 0: a direct client."""

    @property
    def id(self) -> str:
        """The claim's id. This never raises, like `name`."""
        return self.key[-32:].decode(errors="replace")

    @property
    def prefix(self) -> bytes:
        """What the keys of all claims on the same name begin with."""
        return self.key[:-32]

    @property
    def name(self) -> str:
        """The lock's name, for display. This never raises: a foreign key must not hide others."""
        return unquote_to_bytes(self.key[len(CLAIMS) : -33]).decode(errors="replace")

    @property
    def wait_ttl(self) -> float:
        """How many seconds it lives as a waiter without a renewal."""
        return min(self.ttl, LONGEST_WAIT)


def row(key: bytes, revision: int, mod: int, lease: int, stored: bytes) -> Row:
    """Decode a claim. If it is of another format, or foreign, the row has no kind.

    The caller decides what follows: a claim behind such a row is refused, and a claim ahead of it
    is not affected.
    """
    head = _head.match(stored)
    read = _known(head[0]) if head and _key.fullmatch(key) else None
    if head is None or read is None:
        return Row(key, revision, lease, None, 0, 0, LONGEST, stored, mod)
    kind, capacity, weight, ttl, _ = read
    epoch, payload = record.without_epoch(stored[head.end() :])
    return Row(key, revision, lease, kind, capacity, weight, ttl, payload, mod, epoch)


@lru_cache(maxsize=1024)
def _known(head: bytes) -> record.Record | None:
    """Parse a record without its payload. The claims of a queue have few different ones, and each
    claim on a shared lock reads the whole queue.
    """
    return record.read(head)


def unreadable(row: Row) -> EngineRefused:
    """Return the error for a row without a kind."""
    number = other_format(row)
    return _foreign(row.key) if number is None else record.other_format(row.name, number)


def other_format(row: Row) -> int | None:
    """Return the format of a row without a kind; None if lockfast did not write it."""
    number = record.format_of(row.payload)
    ours = _key.fullmatch(row.key) and number != record.FORMAT
    return number if ours and (number or _unnumbered.match(row.payload)) else None


def base(key: bytes, stored: bytes) -> int:
    """Decode the highest `token_base`. Raise `EngineRefused` if lockfast did not write it."""
    if not (stored.isdigit() and len(stored) < 17):  # noqa: PLR2004  # 2**52 has 16 digits
        raise _foreign(key)
    return int(stored)


def _foreign(key: bytes) -> EngineRefused:
    return EngineRefused(
        f"The key {key!r} in etcd was not written by lockfast, or was written by a "
        "later version. Delete it, unless clients of a later version run."
    )
