"""Counts the parts that the arrays of a reply announce, before hiredis reads their headers.

hiredis allocates a list for all parts that an array announces, before any of them arrives. An
announced array of 10^9 parts cost five seconds. A thousand nested arrays of 999,999 parts each,
which are 9 KB of headers, cost seven seconds and 8 GB of address space.
"""

from __future__ import annotations

import re

import hiredis

LARGEST = 16 * 2**20  # bytes of one reply, at most
MOST = 999_999  # parts of all arrays of one reply, at most
LONGEST = 65_536  # bytes of one line, at most: an error message, a number, or a header
SUSPECT = re.compile(rb"[*%~>|][0-9]{5}")  # the header of a larger array, or a part of a string
HEAD = 24  # bytes of the longest such header
LINE = re.compile(rb"(.)([^\r]*)\r\n", re.DOTALL)


class ReplySize:
    """The announced parts of the reply that is arriving on one connection.

    Data is kept and not read, unless it looks like the header of a large array. Reading it takes
    longer than hiredis does. What was read once is not read again.
    """

    __slots__ = ("_due", "_kept", "_parts", "_size", "_skip")

    def __init__(self) -> None:
        """Start between two replies."""
        self.clear()

    def clear(self) -> None:
        """Start again: everything that has arrived belongs to complete replies."""
        self._kept: list[bytes] = []
        self._size = 0
        self._skip = 0
        """Bytes of a string that still have to arrive."""
        self._due = 0
        """Parts that the present reply still lacks."""
        self._parts = 0

    def add(self, data: bytes) -> None:
        """Add received bytes. Raise ProtocolError if a reply announces too many parts."""
        # A header may be split between two pieces.
        seam = b"".join(self._kept[-HEAD:])[-HEAD:]
        self._kept.append(data)
        self._size += len(data)
        # A stream of replies of which none ends where a piece ends must not be kept for ever.
        if SUSPECT.search(seam + data if seam else data) or self._size > LARGEST:
            self._read()

    def _read(self) -> None:
        raw = b"".join(self._kept)
        place = self._skip
        while found := LINE.match(raw, place):
            kind, said = found.groups()
            place = found.end()
            if self._due == 0:  # a reply begins here
                self._due, self._parts = 1, 0
            self._due -= 1
            if not said.isdigit():
                continue
            number = int(said[:HEAD])
            if kind in b"$=!":
                place += number + 2
            elif kind in b"*%~>|":
                parts = number * 2 if kind in b"%|" else number
                self._due += parts
                self._parts += parts
                if self._parts > MOST:
                    raise hiredis.ProtocolError(f"a reply of more than {MOST} parts")
        rest = raw[place:]
        if len(rest) > LONGEST:
            raise hiredis.ProtocolError(f"a line of more than {LONGEST} bytes")
        self._skip = max(place - len(raw), 0)
        self._kept, self._size = [rest], len(rest)
