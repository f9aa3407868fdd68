"""The bucket and the Redis keys of a name, packed: encoded for the Redis protocol.

Every key of a name begins with `lockfast:{bucket}`, so all of them are in one slot of a Redis
Cluster. A brace in the name cannot change the slot, because the name comes after this hash tag.
Each bucket has one counter for all its names. So a counter does not reset when a lock is removed,
and the number of counters does not grow with the number of names (traps 24, 25, 37).
"""

from __future__ import annotations

import zlib
from binascii import crc_hqx
from functools import lru_cache

BUCKETS = 1024
PREFIX = "lockfast:"


def bulk(raw: bytes) -> bytes:
    """Pack one argument of a command, as a bulk string of the Redis protocol."""
    return b"$%d\r\n%b\r\n" % (len(raw), raw)


def command(*args: str | bytes | int) -> bytes:
    """Pack a command with all its arguments."""
    packed = [bulk(arg if isinstance(arg, bytes) else str(arg).encode()) for arg in args]
    return b"*%d\r\n%b" % (len(packed), b"".join(packed))


class Keys:
    """The keys of one name, packed."""

    __slots__ = ("bucket", "connection", "last", "lock", "queue", "records", "tomb")

    def __init__(self, name: str) -> None:
        """Compute the bucket and pack the keys. The character after the tag is the kind of key."""
        raw = name.encode()
        self.bucket = zlib.crc32(raw) % BUCKETS
        tag = f"{PREFIX}{{{self.bucket}}}".encode()
        self.lock = bulk(tag + b"=" + raw)
        self.last = bulk(tag)
        self.queue = bulk(tag + b">" + raw) + bulk(tag + b"#" + raw)
        self.records = bulk(tag + b"?" + raw)
        self.tomb = b"$%d\r\n%b!" % (len(tag) + 33, tag)  # callers append an id and CRLF
        self.connection = b"$%d\r\n%b@" % (len(tag) + 33, tag)  # they do here, too


@lru_cache(maxsize=16384)
def keys(name: str) -> Keys:
    """Return the keys of a name. A cache keeps those of the last 16,384 names."""
    return Keys(name)


@lru_cache(maxsize=BUCKETS)
def slot(bucket: int) -> int:
    """Return the Cluster slot of a bucket: the CRC16 of the text inside its hash tag."""
    return crc_hqx(str(bucket).encode(), 0) % 16384
