"""The parser of replies: hiredis, with limits on the size of a reply.

hiredis allocates a list for all parts that an array announces, before any of them arrives. An
announced array of 10^9 parts cost five seconds. And whenever more of a line arrives, hiredis
searches the whole line again. A line of 8 MB in small pieces cost four seconds.
"""

from __future__ import annotations

import re
from typing import Any

import hiredis

MISSING = object()
LARGEST = 16 * 2**20  # bytes of one reply, at most
MOST = 999_999  # parts of one array, at most
SUSPECT = re.compile(rb"[*%~>|][0-9]{7}")  # the header of a larger array, or a part of a string
HEAD = 24  # bytes of the longest such header
LINE = re.compile(rb"(.)([^\r]*)\r\n", re.DOTALL)


class Parser(hiredis.Reader):
    """The parser of one connection."""

    def __init__(self) -> None:
        """Create an empty parser."""
        super().__init__(notEnoughData=MISSING)
        self.idle = True
        """Whether every byte that arrived belongs to a reply that was returned."""
        self.unfinished = 0
        """Bytes since the last complete reply. Connections read that many at once, so that hiredis
        searches a long line less often."""
        self._pieces: list[bytes] = []
        """Data since hiredis last had parsed everything up to the end of a line or string. Empty
        when idle: asyncio receives into 256 KB, and shrinks that to what has arrived. If this is
        kept, the next 256 KB are memory that the kernel has to provide first, and a read takes
        tens of microseconds longer."""
        self._whole = True
        # Bound here, because `super()` at each call takes longer than hiredis does.
        self._add, self._next, self._more = super().feed, super().gets, self.has_data

    def read(self, data: bytes) -> Any:
        """Add received bytes, and return the next reply, or MISSING if none is complete.

        Nearly all data is one whole reply, which takes a short way here.
        """
        if not self.idle or SUSPECT.search(data):
            self.feed(data)
            return self.gets()
        self._add(data)
        reply = self._next()
        if reply is MISSING or self._more():
            self.idle = False
            self.unfinished = len(data) if reply is MISSING else 0
            self._pieces = [data]
            self._whole = data.endswith(b"\r\n")
        return reply

    def gets(self) -> Any:  # type: ignore[override]  # whatever a server says
        """Return the next reply, or MISSING if none is complete."""
        reply = self._next()
        if reply is not MISSING:
            self.unfinished = 0
            self.idle = not self._more()
            if self.idle:
                self._pieces = []
        return reply

    def feed(self, data: bytes) -> None:  # type: ignore[override]  # a whole piece at a time
        """Add received bytes. Raise ProtocolError if a reply is larger than any that we expect."""
        self.idle = False
        self.unfinished += len(data)
        if self.unfinished > LARGEST:
            raise hiredis.ProtocolError(f"a reply of more than {LARGEST} bytes")
        if self._whole and not self._more():
            self._pieces = [data]
            suspect = SUSPECT.search(data)
        else:  # a header may be split between two pieces
            suspect = SUSPECT.search(b"".join(self._pieces[-HEAD:])[-HEAD:] + data)
            self._pieces.append(data)
        if suspect and crowded(b"".join(self._pieces)):
            raise hiredis.ProtocolError(f"a reply of more than {MOST} parts")
        self._whole = data.endswith(b"\r\n")
        self._add(data)


def crowded(raw: bytes) -> bool:
    """Return whether an array announces more than MOST parts. Skip the contents of strings."""
    place = 0
    while found := LINE.match(raw, place):
        kind, said = found.groups()
        place = found.end()
        if kind in b"*%~>|" and said.isdigit() and int(said[:HEAD]) > MOST:
            return True
        if kind in b"$=!" and said.isdigit():
            place += int(said[:HEAD]) + 2
    return False
