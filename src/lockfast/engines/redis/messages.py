"""Packs calls of the Redis engine's scripts. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from lockfast.core.record import head
from lockfast.engines.redis.keys import Keys, bulk, keys
from lockfast.engines.redis.scripts import (
    ATTACH,
    CLAIM,
    CLAIMS,
    DEPART,
    INSPECT,
    RECORD,
    RENEW,
    RESIGN,
    RESIGNS,
    Script,
)
from lockfast.port import ATTACHED, RECORDS, REMEMBERED, TOMB_MARGIN, Ask, Kind

MARGIN = int(TOMB_MARGIN * 1000)  # ms
ID = 32  # bytes of an id
BULK = b"$%d\r\n" % ID  # before an id
NO_STONE = b"$1\r\n0\r\n"
FLAGS = (b"\r\n$1\r\n0\r\n", b"\r\n$1\r\n1\r\n")
CLAIM_HEAD = CLAIM.packet(12, b"$1\r\n5\r\n")
RESIGN_HEAD = RESIGN.packet(7, b"$1\r\n4\r\n")


class Part(NamedTuple):
    """A claim's part of a call for several claims."""

    bucket: int
    keys: bytes
    args: bytes


def several(script: Script, parts: Sequence[Part], keys: int, args: int) -> bytes:
    """Pack a call of a script for several claims, each of which has so many keys and arguments."""
    rest = [bulk(b"%d" % (keys * len(parts)))]
    rest += [part.keys for part in parts]
    rest += [part.args for part in parts]
    return script.packet(1 + (keys + args) * len(parts), b"".join(rest))


class ClaimForm:
    """The parts of a claim's packet that are the same for all claims of one shape."""

    __slots__ = ("bucket", "head", "middle", "start", "tail", "ttl")

    def __init__(self, name: str, ttl: float, kind: Kind, capacity: int, weight: int) -> None:
        """Pack these parts. `end` packs the kind, the capacity and the weight."""
        del kind, capacity, weight
        where = keys(name)
        self.bucket = where.bucket
        self.start = CLAIM_HEAD + where.lock + where.last + where.tomb
        self.middle = b"\r\n" + where.queue + BULK
        # `not_after` follows: 13 digits until 2286
        self.ttl = b"\r\n" + bulk(b"%d" % round(ttl * 1000)) + b"$13\r\n"
        self.head = b""
        self.tail: tuple[bytes | None, bytes] = (None, b"")
        """The last payload, and the end of a packet with it. A worker's payload changes only once
        a second."""

    def end(self, ask: Ask) -> bytes:
        """Pack the end of a packet, and keep it for the next claim with this payload."""
        self.head = self.head or head(ask.shape)
        tail = bulk(self.head + ask.payload)
        self.tail = (ask.payload, tail)
        return tail


claim_form = lru_cache(maxsize=16384)(ClaimForm)
"""Return the form for claims of one shape. A cache keeps those of the last 16,384 shapes."""


def claim(form: ClaimForm, ask: Ask, not_after: int, base: bytes) -> bytes:
    """Pack a call of claim.lua."""
    ident = ask.id.encode()
    payload, tail = form.tail
    if payload is not ask.payload:
        tail = form.end(ask)
    return b"".join(
        (
            form.start,
            ident,
            form.middle,
            ident,
            form.ttl,
            b"%013d" % not_after,
            FLAGS[ask.queue],
            base,
            tail,
        )
    )


def claim_part(form: ClaimForm, packet: bytes) -> Part:
    """Return a packed claim as a part of a call for several."""
    end = len(form.start) + ID + len(form.middle) - len(BULK)
    return Part(form.bucket, packet[len(CLAIM_HEAD) : end], packet[end:])


def claims(parts: Sequence[Part]) -> bytes:
    """Pack a call of claims.lua."""
    return several(CLAIMS, parts, 5, 6)


class ResignForm(NamedTuple):
    """The start of a resignation's packet, up to the id, and the bucket of its name."""

    bucket: int
    start: bytes


@lru_cache(maxsize=16384)
def resign_form(name: str) -> ResignForm:
    """Return the start of the packet that all resignations from one name share."""
    where = keys(name)
    return ResignForm(where.bucket, RESIGN_HEAD + where.lock + where.queue + where.tomb)


def resign(form: ResignForm, ask: Ask, until: int) -> bytes:
    """Pack a call of resign.lua for one claim. `until` is the server time until which a copy of
    the claim could be applied, or 0 for no tombstone.

    The tombstone outlives `until`, and also one wait_ttl from the server's now. The client's idea
    of the server's clock may be wrong, as it is when a client breaks another client's claim.
    """
    ident, stone = sent(ask.id), NO_STONE
    if until:
        life = ask.shape.wait_ttl * 1000 + MARGIN
        stone = bulk(b"%d %d" % (until + MARGIN, life))
    return b"".join((form.start, ident, b"\r\n$32\r\n", ident, b"\r\n", stone))


def resign_part(form: ResignForm, packet: bytes) -> Part:
    """Return a packed resignation as a part of a call for several."""
    end = len(form.start) + ID + len(b"\r\n")
    return Part(form.bucket, packet[len(RESIGN_HEAD) : end], packet[end:])


def resigns(parts: Sequence[Part]) -> bytes:
    """Pack a call of resigns.lua."""
    return several(RESIGNS, parts, 4, 2)


def attachment(ask: Ask) -> Part:
    """Return a claim's part of a call of attach.lua."""
    where = keys(ask.shape.name)
    life = round((ask.shape.ttl + ATTACHED) * 1000)
    args = bulk(b"%d" % ask.epoch) + bulk(b"%d" % life)
    return Part(where.bucket, where.connection + sent(ask.id) + b"\r\n", args)


def attach(parts: Sequence[Part]) -> bytes:
    """Pack a call of attach.lua."""
    return several(ATTACH, parts, 1, 2)


def depart(ask: Ask, until: int) -> bytes:
    """Pack a call of depart.lua. `until`: as for `resign`."""
    form, where = resign_form(ask.shape.name), keys(ask.shape.name)
    part = resign_part(form, resign(form, ask, until))
    mine = where.connection + sent(ask.id) + b"\r\n"
    epoch = bulk(b"%d" % ask.epoch)
    return DEPART.packet(9, b"$1\r\n5\r\n" + part.keys + mine + part.args + epoch)


def sent(ident: str) -> bytes:
    """Encode an id, and raise ValueError unless it has 32 bytes. The packets state that length, so
    Redis would read the rest of a longer id as another command.
    """
    raw = ident.encode()
    if len(raw) != ID:
        raise ValueError("not the id of a claim")
    return raw


def renewal(ask: Ask) -> Part:
    """Return a claim's part of a renewal. It is packed once and kept in `ask.packed`, since 100,000
    claims would fill a cache.
    """
    packed = ask.packed
    if not isinstance(packed, Part):
        where, ttl = Keys(ask.shape.name), b"%d" % round(ask.shape.ttl * 1000)
        args = b"$32\r\n%b\r\n$%d\r\n%b\r\n" % (ask.id.encode(), len(ttl), ttl)
        packed = ask.packed = Part(where.bucket, where.lock + where.queue, args)
    return packed


def renew(parts: Sequence[Part]) -> bytes:
    """Pack a call of renew.lua."""
    return several(RENEW, parts, 3, 2)


def renew_alone(ask: Ask) -> bytes:
    """Pack a call of renew.lua for a sole holder, with the lock's key alone and the source."""
    rest = b"$1\r\n1\r\n" + keys(ask.shape.name).lock + renewal(ask).args
    return RENEW.whole(RENEW.packet(4, rest))


def inspect(name: str, most: int) -> bytes:
    """Pack a call of inspect.lua."""
    where = keys(name)
    return INSPECT.packet(5, b"$1\r\n3\r\n" + where.lock + where.queue + bulk(b"%d" % most))


_KEPT = bulk(b"%d" % RECORDS) + bulk(b"%d" % (REMEMBERED * 1000))


def record(key: bytes, line: bytes = b"") -> bytes:
    """Pack a call of record.lua that adds a line to the records, or without a line reads them."""
    start = b"$1\r\n1\r\n" + key
    return RECORD.packet(5, start + bulk(line) + _KEPT) if line else RECORD.packet(2, start)
