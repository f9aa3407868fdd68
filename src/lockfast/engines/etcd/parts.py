"""Splits claims into parts, of which each fits into one request to etcd."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
ROOM = 1 << 20  # bytes of payloads in a request: etcd allows 1.5 MiB, and keys need room too


def parts(claims: Iterable[T], most: int, size: Callable[[T], int]) -> Iterator[list[T]]:
    """Return the claims in parts of at most `most`, and of at most `ROOM` bytes unless one alone is
    larger. `size` returns how many bytes of payloads the request has for a claim.

    etcd refuses a request that is too large, and with it every claim in it.
    """
    part: list[T] = []
    room = ROOM
    for claim in claims:
        needed = size(claim)
        if part and (len(part) >= most or needed > room):
            yield part
            part, room = [], ROOM
        part.append(claim)
        room -= needed
    if part:
        yield part
