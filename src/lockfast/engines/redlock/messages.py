"""Packs requests to the nodes, and reads marks. The same bytes go to every node. No I/O."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from lockfast.core.record import head
from lockfast.engines.redis.keys import BUCKETS, bulk, command
from lockfast.engines.redis.messages import sent
from lockfast.engines.redlock.scripts import (
    CLAIM,
    ENTER,
    INSPECT,
    INSTALL,
    JOIN,
    MARKS,
    RENEW,
    RESIGN,
)
from lockfast.port import Shape

PREFIX = "lockfast:redlock:"
MEMBER = f"{PREFIX}member"
MOMENT = 50  # ms for which a node reserves a released lock for the longest waiter
UNDER_WAY = 2.0  # seconds after which an answer to a proposal no longer counts
SETTLED = 2500  # ms after which no proposal is under way, with a margin for clocks that run fast
LOAD = b"".join(
    command("SCRIPT", "LOAD", script.source) for script in (CLAIM, RENEW, RESIGN, INSPECT)
)
LOADED = 4
RIGHTS = (
    "~lockfast:redlock:* &lockfast:redlock:* +hello +client +select +time +info +eval +evalsha "
    "+script +subscribe +unsubscribe +scan +ping +get +mget +set +psetex +setrange +del +exists "
    "+pexpire +pttl +zadd +zrem +zrangebyscore +zscore +hset +hget +hdel +hlen +publish"
)
"""The ACL rights that a user needs on every node, for lockfast's commands and its scripts."""


def mark_key(bucket: int) -> str:
    """Return the key of a bucket's mark, which is the highest number that the node accepted."""
    return f"{PREFIX}{{{bucket}}}"


class Keys:
    """The keys of one name, packed. All have one hash tag, in front of the name (trap 37)."""

    __slots__ = ("both", "bucket", "entomb", "records", "renew", "resign")

    def __init__(self, name: str) -> None:
        """Compute the bucket and pack the keys. The character after the tag is the kind of key."""
        raw = name.encode()
        self.bucket = zlib.crc32(raw) % BUCKETS
        tag = mark_key(self.bucket).encode()
        self.both = b"$1\r\n2\r\n" + bulk(tag + b"=" + raw) + bulk(tag)
        self.records = bulk(tag + b"?" + raw)
        self.renew = RENEW.packet(5, self.both)
        self.resign = RESIGN.packet(5, self.both)
        self.entomb = RESIGN.packet(6, self.both)


keys = lru_cache(maxsize=16384)(Keys)
"""Return the keys of a name. A cache keeps those of the last 16,384 names."""


def _millis(seconds: float) -> bytes:
    return b"%d" % round(seconds * 1000)


class ClaimForm:
    """The parts of a proposal's packet that are the same for all claims of one shape."""

    __slots__ = ("more", "record", "start", "waits")

    def __init__(self, name: str, ttl: float, adopted: bool) -> None:  # noqa: FBT001  # a key of the cache
        """Pack these parts. `adopted`: another engine was the first to propose the number."""
        shape = Shape(name, ttl)
        self.start = CLAIM.packet(6, keys(name).both)
        self.record = (b" A " if adopted else b" - ") + head(shape)
        self.more = 49 + len(self.record)  # bytes of the argument without the payload
        after = b"\r\n" + bulk(_millis(ttl))
        waits = (b"0", _millis(shape.wait_ttl))
        self.waits = [(b"%b$%d\r\n" % (after, 34 + len(wait)), b" %b\r\n" % wait) for wait in waits]


claim_form = lru_cache(maxsize=16384)(ClaimForm)
"""Return the form for claims of one shape. A cache keeps those of the last 16,384 shapes."""


def claim(  # noqa: PLR0913, PLR0917  # the parts of a proposal; a hot path
    form: ClaimForm,
    ident: str,
    token: int,
    since: int,
    last: int,
    queue: bool,  # noqa: FBT001  # a value, not a switch
    payload: bytes,
) -> bytes:
    """Pack a call of claim.lua."""
    before, after = form.waits[queue]
    return b"%b$%d\r\n%b %016d%b%b%b%016d %016d%b" % (
        form.start,
        form.more + len(payload),
        ident.encode(),
        token,
        form.record,
        payload,
        before,
        since,
        last,
        after,
    )


def renew(name: str, ident: str, token: int, ttl: float) -> bytes:
    """Pack a call of renew.lua."""
    life = bulk(_millis(ttl))
    return b"%b$50\r\n%b %016d \r\n%b" % (keys(name).renew, ident.encode(), token, life)


_RESIGNED = b" - \r\n" + bulk(b"%d" % MOMENT)
_WITHDRAWN = b" - \r\n" + bulk(b"0")


def resign(
    name: str, ident: str, token: int, *, withdrawn: bool = False, tomb: float = 0.0
) -> bytes:
    """Pack a call of resign.lua. `withdrawn`: only withdraw the proposal, and keep waiting. `tomb`:
    for how many seconds the node refuses the id.
    """
    if tomb:
        end = _RESIGNED + bulk(_millis(tomb))
        return b"%b$52\r\n%b %016d%b" % (keys(name).entomb, sent(ident), token, end)
    end = _WITHDRAWN if withdrawn else _RESIGNED
    return b"%b$52\r\n%b %016d%b" % (keys(name).resign, sent(ident), token, end)


def inspect(name: str, most: int) -> bytes:
    """Pack a call of inspect.lua."""
    return INSPECT.packet(4, keys(name).both + bulk(b"%d" % most))


def enter() -> bytes:
    """Pack a login's call of enter.lua, with its source, since a new node has no scripts."""
    return command("EVAL", ENTER.source, 1, MEMBER, PREFIX, BUCKETS)


def join(key: bytes, since: str, marks: Sequence[str]) -> bytes:
    """Pack a call of join.lua. `key` is the key of a mark that the node lacks."""
    return command("EVAL", JOIN.source, 2, MEMBER, key, PREFIX, SETTLED, since, *marks)


def marks(since: str) -> bytes:
    """Pack a call of marks.lua."""
    return command("EVAL", MARKS.source, 0, PREFIX, BUCKETS, since)


def install(mark: int) -> bytes:
    """Pack a call of install.lua."""
    return command("EVAL", INSTALL.source, 1, MEMBER, PREFIX, BUCKETS, f"{mark:016d}")


MARK = re.compile(rb"(\d{1,16}) (\d{1,16})")
ALL_MARKS = command("MGET", *(mark_key(bucket) for bucket in range(BUCKETS)))


def mark(raw: Any) -> tuple[int, int] | None:
    """Return a bucket's mark and its longest ttl in ms, or None if the node is no member there."""
    found = MARK.fullmatch(raw) if isinstance(raw, bytes) else None
    return (int(found[1]), int(found[2])) if found else None
