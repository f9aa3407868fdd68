"""The parser of replies: hiredis, with limits on the size of a reply.

Whenever more of a line arrives, hiredis searches the whole line again. A line of 8 MB in small
pieces cost four seconds. `reply_size` tells what arrays cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hiredis

from lockfast.engines.redis.reply_size import LARGEST, SUSPECT, ReplySize

MISSING = object()
REMOVED = b"*1\r\n:1\r\n"  # the usual reply to a resignation
TICKET, END, WHOLE = b"$16\r\n", b"\r\n", 23  # of the usual reply to a claim: its ticket


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
        self._arriving = ReplySize()
        """Empty when idle: asyncio receives into 256 KB, and shrinks that to what has arrived. If
        this is kept, the next 256 KB are memory that the kernel has to provide first, and a read
        takes tens of microseconds longer."""
        # Bound here, because `super()` at each call takes longer than hiredis does.
        self._add, self._next, self._more = super().feed, super().gets, self.has_data
        self.take: Callable[[], Any] = self._next
        """Return the next reply, or MISSING, after `begin`."""

    def read(self, data: bytes) -> Any:
        """Add received bytes, and return the next reply, or MISSING if none is complete.

        Nearly all data is one whole reply, which takes a short way here. The two that answer most
        requests are read without hiredis: their length says that nothing is missing or follows.
        """
        if self.idle:
            if data == REMOVED:
                return [1]
            if len(data) == WHOLE and data.startswith(TICKET) and data.endswith(END):
                return data[5:21]
        if not self.idle or SUSPECT.search(data):
            self.feed(data)
            return self.gets()
        self._add(data)
        reply = self._next()
        if reply is MISSING or self._more():
            self.idle = False
            self.unfinished = len(data) if reply is MISSING else 0
            self._arriving.add(data)
        return reply

    def begin(self, data: bytes) -> bool:
        """Add received bytes, perhaps many replies. Return whether the caller may get them with
        `take`, which costs less than `gets`. It stops when a reply was the last of the data
        (`has_data`), or else calls `keep`.
        """
        if not self.idle or SUSPECT.search(data):
            self.feed(data)
            return False
        self._add(data)
        return True

    def keep(self, data: bytes, count: int) -> None:
        """Note that a part of a reply is left: `take` has returned `count` replies and MISSING.
        `data` is what `begin` was called with.
        """
        self.idle = False
        self.unfinished = 0 if count else len(data)
        self._arriving.add(data)

    def gets(self) -> Any:  # type: ignore[override]  # whatever a server says
        """Return the next reply, or MISSING if none is complete."""
        reply = self._next()
        if reply is not MISSING:
            self.unfinished = 0
            self.idle = not self._more()
            if self.idle:
                self._arriving.clear()
        return reply

    def feed(self, data: bytes) -> None:  # type: ignore[override]  # a whole piece at a time
        """Add received bytes. Raise ProtocolError if a reply is larger than any that we expect."""
        self.idle = False
        self.unfinished += len(data)
        if self.unfinished > LARGEST:
            raise hiredis.ProtocolError(f"a reply of more than {LARGEST} bytes")
        self._arriving.add(data)
        self._add(data)
