"""The parser of replies: hiredis, with bounds.

hiredis makes a list with as many places as an array says it has, before any of them comes: an
announced array of 10^9 cost five seconds. And whenever more of a line comes, it looks through the
whole line again: 8 MB in small pieces cost four seconds.
"""

from __future__ import annotations

import re
from typing import Any

import hiredis

MISSING = object()
LARGEST = 16 * 2**20  # bytes of one reply
MOST = 999_999  # parts of one reply
SUSPECT = re.compile(rb"[*%~>|][0-9]{7}")  # the head of a larger one, or a part of a text
HEAD = 24  # bytes of the longest such head
LINE = re.compile(rb"(.)([^\r]*)\r\n", re.DOTALL)


class Parser(hiredis.Reader):
    """One connection's parser."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__(notEnoughData=MISSING)
        self.unfinished = 0
        """Bytes since the last whole reply: read as many at once, to look seldom."""
        self._pieces: list[bytes] = []
        """What came since the end of a line or text that was read to its end."""
        self._whole = True

    def gets(self) -> Any:  # type: ignore[override]  # whatever a server says
        """Return the next reply, or MISSING."""
        reply = super().gets()
        if reply is not MISSING:
            self.unfinished = 0
        return reply

    def feed(self, data: bytes) -> None:  # type: ignore[override]  # a whole piece at a time
        """Take bytes in. A ProtocolError says that no server of ours sends them."""
        self.unfinished += len(data)
        if self.unfinished > LARGEST:
            raise hiredis.ProtocolError(f"a reply of more than {LARGEST} bytes")
        if self._whole and not self.has_data():
            self._pieces = [data]
            suspect = SUSPECT.search(data)
        else:  # a head may come in parts
            suspect = SUSPECT.search(b"".join(self._pieces[-HEAD:])[-HEAD:] + data)
            self._pieces.append(data)
        if suspect and crowded(b"".join(self._pieces)):
            raise hiredis.ProtocolError(f"a reply of more than {MOST} parts")
        self._whole = data.endswith(b"\r\n")
        super().feed(data)


def crowded(raw: bytes) -> bool:
    """Return whether an array says that it has too many parts: texts are stepped over."""
    place = 0
    while found := LINE.match(raw, place):
        kind, said = found.groups()
        place = found.end()
        if kind in b"*%~>|" and said.isdigit() and int(said[:HEAD]) > MOST:
            return True
        if kind in b"$=!" and said.isdigit():
            place += int(said[:HEAD]) + 2
    return False
