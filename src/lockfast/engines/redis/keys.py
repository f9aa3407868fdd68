"""Where a name lives in Redis: its bucket, and its keys, packed for the wire once.

Every key of a name begins with `lockfast:{bucket}`, so all of them are in one slot of a Redis
Cluster, and a brace in the name, which stands behind the tag, cannot move it. The counters are one
per bucket, not one per name: they neither reset with a lock nor pile up (traps 24, 25, 37).
"""

from __future__ import annotations

import zlib
from binascii import crc_hqx
from functools import lru_cache

BUCKETS = 1024
PREFIX = "lockfast:"


def bulk(raw: bytes) -> bytes:
    """Pack one argument."""
    return b"$%d\r\n%b\r\n" % (len(raw), raw)


def command(*args: str | bytes | int) -> bytes:
    """Pack a whole command."""
    packed = [bulk(arg if isinstance(arg, bytes) else str(arg).encode()) for arg in args]
    return b"*%d\r\n%b" % (len(packed), b"".join(packed))


class Keys:
    """The keys of one name, packed."""

    __slots__ = ("bucket", "last", "lock", "queue", "records", "tomb")

    def __init__(self, name: str) -> None:
        """Find the bucket; the kind of key is one character right behind the tag."""
        raw = name.encode()
        self.bucket = zlib.crc32(raw) % BUCKETS
        tag = f"{PREFIX}{{{self.bucket}}}".encode()
        self.lock = bulk(tag + b"=" + raw)
        self.last = bulk(tag)
        self.queue = bulk(tag + b">" + raw) + bulk(tag + b"#" + raw)
        self.records = bulk(tag + b"?" + raw)
        self.tomb = b"$%d\r\n%b!" % (len(tag) + 33, tag)  # the id and an end of line follow


@lru_cache(maxsize=16384)
def keys(name: str) -> Keys:
    """Return the keys of a name; the last 16,384 names are remembered."""
    return Keys(name)


@lru_cache(maxsize=BUCKETS)
def slot(bucket: int) -> int:
    """Return the Cluster slot of a bucket: CRC16 of its tag's content."""
    return crc_hqx(str(bucket).encode(), 0) % 16384
