"""What all workers show at `/metrics`: memory that they share, with a page of each.

A request reaches any worker, so each worker needs the figures of all. It writes its own page every
second. They are not added up: a worker that was replaced begins at 0, and Prometheus would take the
sum for one that has begun again.
"""

from __future__ import annotations

import mmap
import struct
import zlib

SIZE = 2**17  # bytes for the page of one worker
_HEAD = struct.Struct("!II")  # the length of a page, and its checksum
_FAMILY = "# HELP "


class Board:
    """Pages of all workers. The processes that are forked after it was made share it."""

    def __init__(self, count: int) -> None:
        """Begin with empty pages."""
        self._pages = [mmap.mmap(-1, SIZE) for _ in range(count)]

    def put(self, number: int, page: str) -> None:
        """Write the page of a worker."""
        text = page.encode()[: SIZE - _HEAD.size]
        head = _HEAD.pack(len(text), zlib.crc32(text))
        self._pages[number][: _HEAD.size + len(text)] = head + text

    def read(self) -> str:
        """Return the pages of all workers as one page. Samples of a metric stand together."""
        families: dict[str, str] = {}
        for each in self._pages:
            for family in _text(each).split(_FAMILY)[1:]:
                name, kind, samples = family.split("\n", 2)
                head = f"{_FAMILY}{name}\n{kind}\n"
                families[head] = families.get(head, "") + samples
        return "".join(head + samples for head, samples in families.items())


def _text(page: mmap.mmap) -> str:
    """Return a page. A worker may be writing it at this moment, or have died meanwhile."""
    for _ in range(3):
        length, checksum = _HEAD.unpack(page[: _HEAD.size])
        text = page[_HEAD.size : _HEAD.size + length]
        if zlib.crc32(text) == checksum:
            return text.decode()
    return ""
