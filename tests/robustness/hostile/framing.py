"""Framing: where a reply ends in each protocol, and which part of it may be changed so that it is
still read. Only the rest of the bytes would reach our own code seldom: a driver gives up before.
"""

from __future__ import annotations

from asyncio import IncompleteReadError, StreamReader
from collections.abc import Awaitable, Callable
from typing import NamedTuple

CHUNK = 65_536


class Frame(NamedTuple):
    """One reply: the bytes as they came, and from where on they are not framing."""

    raw: bytes
    body: int


Framing = Callable[[StreamReader], Awaitable[Frame | None]]
"""Read the next reply; None at the end."""


async def chunks(stream: StreamReader) -> Frame | None:
    """Redis: a client sends one command and reads, so what comes at once is a reply."""
    raw = await stream.read(CHUNK)
    return Frame(raw, 1) if raw else None


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


async def _exactly(stream: StreamReader, count: int) -> bytes | None:
    try:
        return await stream.readexactly(count)
    except (IncompleteReadError, OSError):
        return None
