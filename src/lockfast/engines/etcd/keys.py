"""Encodes names and claims as keys and values. Each name has a path of its own.

| key | what |
| --- | --- |
| `lockfast/claim/NAME/ID` | a claim: `CAPACITY WEIGHT TTL-IN-MS PAYLOAD`, on its client's lease |
| `lockfast/gate/LEASE` | the gate of a client's session, on the same lease |
| `lockfast/break/NAME/ID` | the record of a break, on a lease of its own |
| `lockfast/base` | the highest token_base that any client has named |
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from lockfast.errors import EngineRefused
from lockfast.port import LONGEST, LONGEST_WAIT, SHARED, Shape

CLAIMS = b"lockfast/claim/"
GATES = b"lockfast/gate/"
BREAKS = b"lockfast/break/"
BASE = b"lockfast/base"

_special = re.compile(rb"[\x00-\x1f%/\x7f]")
_key = re.compile(re.escape(CLAIMS) + rb"[^/]+/[0-9a-f]{32}")
_claim = re.compile(rb"(\d{1,10}) (\d{1,10}) (\d{1,8}) (.*)", re.DOTALL)


def encoded(name: str) -> bytes:
    """Encode a name byte by byte, so that a prefix of a name is a prefix of its key."""
    return _special.sub(lambda found: b"%%%02X" % found[0][0], name.encode())


def end(prefix: bytes) -> bytes:
    """Return the first key after all keys with a prefix, which must end in a byte below 255."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def gate(lease: int) -> bytes:
    """Return the key of a session's gate."""
    return GATES + b"%x" % lease


def value(shape: Shape, payload: bytes) -> bytes:
    """Encode the value of a claim."""
    head = b"%d %d %d " % (shape.capacity, shape.weight, round(shape.ttl * 1000))
    return head + payload


class Row(NamedTuple):
    """A claim, as it is stored."""

    key: bytes
    revision: int
    """The create revision: its ticket, without the base."""
    lease: int
    capacity: int
    weight: int
    ttl: float
    payload: bytes

    @property
    def id(self) -> str:
        """The claim's id."""
        return self.key[-32:].decode()

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


def row(key: bytes, revision: int, lease: int, stored: bytes) -> Row:
    """Decode a claim. Raise `EngineRefused` if lockfast did not write it."""
    said = _claim.fullmatch(stored)
    if said is None or _key.fullmatch(key) is None:
        raise _foreign(key)
    capacity, weight, millis = int(said[1]), int(said[2]), int(said[3])
    if not (1 <= weight <= capacity <= SHARED and 1 <= millis <= LONGEST * 1000):
        raise _foreign(key)
    return Row(key, revision, lease, capacity, weight, millis / 1000, said[4])


def base(key: bytes, stored: bytes) -> int:
    """Decode the highest `token_base`. Raise `EngineRefused` if lockfast did not write it."""
    if not (stored.isdigit() and len(stored) < 17):  # noqa: PLR2004  # 2**52 has 16 digits
        raise _foreign(key)
    return int(stored)


def _foreign(key: bytes) -> EngineRefused:
    return EngineRefused(f"The key {key!r} in etcd was not written by lockfast. Delete it.")
