"""Packets of the MySQL protocol: splits what a server sends, frames what a client sends. No I/O.

Every packet has a header of four bytes: the length of its payload, and a number that counts the
packets of one exchange.
"""

from __future__ import annotations

HEADER = 4
LARGEST = 0xFFFFFF  # bytes of a payload; one of this length would continue in the next packet
BOUND = 64 << 20  # bytes of a whole reply


class BrokenProtocol(Exception):  # never leaves the engine
    """The server sent something that the protocol does not allow, or too much."""


class Packets:
    """The packets that have arrived in one exchange."""

    __slots__ = ("_at", "_data", "_total", "sequence")

    def __init__(self) -> None:
        """Start with nothing, and with the first number."""
        self._data = bytearray()
        self._at = 0
        self._total = 0
        self.sequence = 0
        """The number of the next packet, in either direction."""

    def begin(self) -> None:
        """Begin the next exchange. Nothing may have arrived before its request."""
        if self._at != len(self._data):
            raise BrokenProtocol("a reply to nothing")
        self._data.clear()
        self._at = self._total = self.sequence = 0

    def follow(self) -> None:
        """Begin an exchange whose request was sent behind the one before. Its reply may be here."""
        self._total = len(self._data) - self._at
        self.sequence = 1  # the request had the number 0

    @property
    def empty(self) -> bool:
        """Whether every byte that has arrived was read."""
        return self._at == len(self._data)

    def feed(self, data: bytes) -> None:
        """Add bytes that have arrived."""
        self._total += len(data)
        if self._total > BOUND:
            raise BrokenProtocol("a reply of more than 64 MiB")
        if self._at:
            del self._data[: self._at]
            self._at = 0
        self._data += data

    def next(self) -> bytes | None:
        """Return the payload of the next packet, or None if not all of it has arrived."""
        data, at = self._data, self._at
        start = at + HEADER
        if start > len(data):
            return None
        length = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        if length == LARGEST:
            raise BrokenProtocol("a packet of 16 MiB")
        end = start + length
        if end > len(data):
            return None
        if data[at + 3] != self.sequence:
            raise BrokenProtocol(f"packet {data[at + 3]} came in place of {self.sequence}")
        if not length:
            raise BrokenProtocol("an empty packet")
        self.sequence = (self.sequence + 1) % 256
        self._at = end
        return bytes(data[start:end])

    def framed(self, payload: bytes) -> bytes:
        """Return a packet for the server, with the next number."""
        if len(payload) >= LARGEST:
            raise ValueError("a request of 16 MiB or more")
        number, self.sequence = self.sequence, (self.sequence + 1) % 256
        return len(payload).to_bytes(3, "little") + bytes([number]) + payload
