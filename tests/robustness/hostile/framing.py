"""Framing: where a reply ends in each protocol, and which part of it may be changed so that it is
still read. Only the rest of the bytes would reach our own code seldom: a driver gives up before.
"""

from __future__ import annotations

from asyncio import IncompleteReadError, StreamReader
from collections.abc import Awaitable, Callable
from typing import NamedTuple

LONG, MANY, TWICE = b"$=!", b"*~>%|", b"%|"  # RESP: bytes follow, values follow, pairs of them


class Frame(NamedTuple):
    """One reply: the bytes as they came, and from where on they are not framing."""

    raw: bytes
    body: int


Framing = Callable[[StreamReader], Awaitable[Frame | None]]
"""Read the next reply; None at the end."""


async def values(stream: StreamReader) -> Frame | None:
    """Redis: a line, then so many bytes or so many values of the same form."""
    try:
        return Frame(await _value(stream), 1)
    except (IncompleteReadError, OSError):
        return None


async def _value(stream: StreamReader) -> bytes:
    line = await stream.readuntil(b"\r\n")
    count = int(line[1:]) if line[:1] in LONG + MANY else 0
    if line[:1] in LONG and count >= 0:
        return line + await stream.readexactly(count + 2)
    if line[:1] in TWICE:
        count *= 2
    return line + b"".join([await _value(stream) for _ in range(count)])


async def messages(stream: StreamReader) -> Frame | None:
    """PostgreSQL: a letter, a length that counts itself, and a message."""
    head = await _exactly(stream, 5)
    if head is None:
        return None
    rest = await _exactly(stream, max(int.from_bytes(head[1:], "big") - 4, 0))
    return None if rest is None else Frame(head + rest, 5)


async def packets(stream: StreamReader) -> Frame | None:
    """ZooKeeper: a length and a packet."""
    head = await _exactly(stream, 4)
    if head is None:
        return None
    rest = await _exactly(stream, int.from_bytes(head, "big"))
    return None if rest is None else Frame(head + rest, 4)


async def numbered(stream: StreamReader) -> Frame | None:
    """MySQL: a length, a number that counts packets, and a packet."""
    head = await _exactly(stream, 4)
    if head is None:
        return None
    rest = await _exactly(stream, int.from_bytes(head[:3], "little"))
    return None if rest is None else Frame(head + rest, 4)


async def http2(stream: StreamReader) -> Frame | None:
    """etcd: frames of HTTP/2. Of those with data, what stands behind gRPC's own five bytes."""
    head = await _exactly(stream, 9)
    if head is None:
        return None
    rest = await _exactly(stream, int.from_bytes(head[:3], "big"))
    if rest is None:
        return None
    is_data = head[3] == 0
    return Frame(head + rest, 14 if is_data and len(rest) > 5 else len(head + rest))  # as above


async def websocket(stream: StreamReader) -> Frame | None:
    """The lock service: the head of a handshake, then frames. Those of a client are masked, which
    is undone here: else nothing that makes sense would reach the service.
    """
    head = await _exactly(stream, 2)
    if head is None:
        return None
    if head[0] < 0x80:  # it begins a handshake: frames have the bit that says that they are whole
        try:
            raw = head + await stream.readuntil(b"\r\n\r\n")
        except (IncompleteReadError, OSError):
            return None
        return Frame(raw, len(raw))
    size, masked = head[1] & 0x7F, bool(head[1] & 0x80)
    more = await _exactly(stream, {126: 2, 127: 8}.get(size, 0))
    mask = await _exactly(stream, 4 if masked else 0)
    if more is None or mask is None:
        return None
    content = await _exactly(stream, int.from_bytes(more, "big") if more else size)
    if content is None:
        return None
    plain = bytes(byte ^ mask[at % 4] for at, byte in enumerate(content)) if masked else content
    start = head + more + bytes(len(mask))
    return Frame(start + plain, len(start))


async def _exactly(stream: StreamReader, count: int) -> bytes | None:
    try:
        return await stream.readexactly(count)
    except (IncompleteReadError, OSError):
        return None
