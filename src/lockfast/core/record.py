"""The text form of a claim, for all engines that store text.

A record is `v<format> <kind> <capacity> <weight> <ttl in ms> <payload>`. The format comes first, so
that every version finds out whether it can read the rest. Claims of lockfast before 0.1 have no
format number. They count as format 0.

A release reads the format that its predecessor writes, and writes one that its predecessor reads.
So a new field is read for one release before it is written: see docs/explanation/formats.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lockfast.errors import EngineRefused
from lockfast.port import LONGEST, Kind, Shape, fits_kind

_EPOCH = re.compile(rb"~([0-9]{1,16}) ")
FORMAT = 1
_FORMAT = re.compile(rb"v([1-9][0-9]{0,8}) ")
_REST = re.compile(rb"([1-3]) ([0-9]{1,10}) ([0-9]{1,10}) ([0-9]{1,8}) ")


class Record(NamedTuple):
    """A claim as it is stored, without its name, id and ticket."""

    kind: Kind
    capacity: int
    weight: int
    ttl: float
    payload: bytes


def head(shape: Shape) -> bytes:
    """Return the record of a claim up to its payload."""
    millis = round(shape.ttl * 1000)
    return b"v%d %d %d %d %d " % (FORMAT, shape.kind, shape.capacity, shape.weight, millis)


def read(stored: bytes) -> Record | None:
    """Parse a record of our format. None: it is of another format, or lockfast did not write it."""
    if format_of(stored) != FORMAT:
        return None
    start = stored.index(b" ") + 1
    found = _REST.match(stored, start)
    if found is None:
        return None
    kind, capacity, weight, millis = Kind(int(found[1])), *map(int, found.group(2, 3, 4))
    if not fits_kind(kind, capacity, weight) or not 1 <= millis <= LONGEST * 1000:
        return None
    return Record(kind, capacity, weight, millis / 1000, stored[found.end() :])


def format_of(stored: bytes) -> int:
    """Return the format of a record. 0: it has no format number."""
    found = _FORMAT.match(stored)
    return int(found[1]) if found else 0


def other_format(name: str, stored: int) -> EngineRefused:
    """Return the error for a lock that is stored in another format, or unreadable in ours."""
    if stored == FORMAT:
        return EngineRefused(
            f"{name!r} is stored in format {FORMAT}, but this version of lockfast cannot read it: "
            "a later version or another program has written it. It was not changed. Remove it, "
            "unless clients of a later version run."
        )
    return EngineRefused(
        f"{name!r} is stored in format {stored}, and this version of lockfast reads format "
        f"{FORMAT}: clients of another version use it. Their locks were not changed. Upgrade "
        "those clients, or wait until they have released the lock."
    )


def with_epoch(epoch: int, payload: bytes) -> bytes:
    """Return what is stored as the payload of a claim. The epoch of a client of the service is
    written before it, as `~<epoch> `.

    Versions that do not know epochs take it for a part of the payload, which only people read. So
    they understand all that decides who holds the lock. A direct client has epoch 0, and none is
    written.
    """
    return b"~%d %b" % (epoch, payload) if epoch or payload.startswith(b"~") else payload


def without_epoch(stored: bytes) -> tuple[int, bytes]:
    """Return the epoch and the payload of what is stored as a payload."""
    found = _EPOCH.match(stored) if stored.startswith(b"~") else None
    return (int(found[1]), stored[found.end() :]) if found else (0, stored)
