"""The frames of WebSocket (RFC 6455) without I/O: bytes in, messages out, and the reverse.

A client and `lockfast serve` speak them after the handshake. The library that makes the handshake
could do it too. But it makes several objects for each frame, and cost half of a message's time.
"""

from __future__ import annotations

import os

try:
    from websockets.speedups import apply_mask
except ImportError:  # built without a C compiler
    from websockets.utils import apply_mask

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FINAL, MASKED = 0x80, 0x80
SHORT, LONG = 126, 127  # lengths that say that the length follows, in 2 or in 8 bytes
SMALL = 125  # bytes of a control frame, and of a frame whose length is in its second byte
NORMAL, PROTOCOL, NO_CODE, NO_TEXT, TOO_LARGE = 1000, 1002, 1005, 1007, 1009
KEYS = 1024  # masking keys that are drawn at once, since each call of the system costs more

Event = tuple[int, bytes]
"""An opcode, and the payload of a whole message or of a control frame. CONT stands for a fragment
that does not end its message: the caller ignores it, and limits how many it handles at a time.
"""


class Violation(Exception):  # never leaves the connection
    """The peer does not keep to the protocol."""

    def __init__(self, code: int, why: str) -> None:
        """Take the code of the close frame that says so."""
        super().__init__(why)
        self.code = code


class Reader:
    """Splits the bytes of one peer into messages."""

    def __init__(self, largest: int, *, masked: bool) -> None:
        """Expect messages of at most `largest` bytes. `masked`: whether the peer is a client."""
        self._largest = largest
        self._mask = MASKED if masked else 0
        self._held = bytearray()
        """The beginning of a frame."""
        self._wanted = 0
        """How many bytes of that frame must be there before there is anything to do."""
        self._kind = CONT
        """The opcode of a message whose first fragments are in `_parts`."""
        self._parts = bytearray()

    def feed(self, data: bytes) -> list[Event]:
        """Return what is complete. Raise `Violation` before more than one message is kept."""
        if self._held:
            self._held += data
            if len(self._held) < self._wanted:
                return []
            data = bytes(self._held)
            self._held = bytearray()
        found: list[Event] = []
        at, end = 0, len(data)
        while at < end:
            body, past = self._measure(data, at, end)
            if past > end:
                self._wanted = past - at
                self._held += data[at:]
                break
            payload = data[body:past]
            if self._mask:
                payload = apply_mask(payload, data[body - 4 : body])
            if data[at] == FINAL | TEXT:
                found.append((TEXT, _text(payload)))
            else:
                self._rare(data[at], payload, found)
            at = past
        return found

    def _measure(self, data: bytes, at: int, end: int) -> tuple[int, int]:
        """Return where the payload of the frame at `at` begins and ends. If its head is not
        complete, return an end of the head that is after `end`.
        """
        body = at + 2
        if body > end:
            return body, body
        first, second = data[at], data[at + 1]
        if second & MASKED != self._mask:
            raise Violation(PROTOCOL, "a client must mask its frames, and a server must not")
        size = second & ~MASKED
        if size > SMALL:
            body += 2 if size == SHORT else 8
            if body > end:
                return body, body
            size = int.from_bytes(data[at + 2 : body], "big")
        if first != FINAL | TEXT or self._kind or size > self._largest:
            self._check(first, size)
        if self._mask:
            body += 4
        return body, body + size

    def _check(self, first: int, size: int) -> None:
        """Raise `Violation` if a frame may not begin so. Its payload has not arrived yet."""
        opcode = first & 0x0F
        if first & 0x70 or opcode not in {CONT, TEXT, BINARY, CLOSE, PING, PONG}:
            raise Violation(PROTOCOL, "unknown frame")
        if opcode >= CLOSE:
            if size > SMALL or not first & FINAL:
                raise Violation(PROTOCOL, "a control frame is too long, or in fragments")
        elif (opcode == CONT) != (self._kind != CONT):
            raise Violation(PROTOCOL, "a fragment that does not follow the one before")
        elif len(self._parts) + size > self._largest:
            raise Violation(TOO_LARGE, "the message is too large")

    def _rare(self, first: int, payload: bytes, found: list[Event]) -> None:
        """Take a control frame, a fragment or a binary message."""
        opcode = first & 0x0F
        if opcode >= CLOSE:
            found.append((opcode, payload))
            return
        if opcode != CONT:
            self._kind = opcode
        self._parts += payload
        if first & FINAL:
            whole, kind = bytes(self._parts), self._kind
            self._parts, self._kind = bytearray(), CONT
            found.append((kind, _text(whole) if kind == TEXT else whole))
        else:
            found.append((CONT, b""))


def _text(payload: bytes) -> bytes:
    if not payload.isascii():
        try:
            payload.decode()
        except UnicodeDecodeError:
            raise Violation(NO_TEXT, "text that is not UTF-8") from None
    return payload


def head(opcode: int, size: int, mask: int = 0) -> bytes:
    """Return the first bytes of a frame that is a whole message."""
    if size <= SMALL:
        return bytes((FINAL | opcode, mask | size))
    if size < 1 << 16:
        return bytes((FINAL | opcode, mask | SHORT, size >> 8, size & 0xFF))
    return bytes((FINAL | opcode, mask | LONG)) + size.to_bytes(8, "big")


class Masker:
    """Makes the frames of a client."""

    def __init__(self) -> None:
        """Draw no keys yet."""
        self._keys = b""
        self._at = 0

    def frame(self, opcode: int, payload: bytes) -> bytes:
        """Return a masked frame."""
        at = self._at
        if at == len(self._keys):
            self._keys, at = os.urandom(4 * KEYS), 0
        self._at = at + 4
        key = self._keys[at : at + 4]
        return b"%b%b%b" % (head(opcode, len(payload), MASKED), key, apply_mask(payload, key))


def closing(code: int, reason: str = "") -> bytes:
    """Return the payload of a close frame."""
    return code.to_bytes(2, "big") + reason.encode()[: SMALL - 2]


def closed(payload: bytes) -> tuple[int, str]:
    """Return the code and the reason of a close frame. Raise `Violation` if it has none."""
    if not payload:
        return NO_CODE, ""
    code = int.from_bytes(payload[:2], "big")
    known = NORMAL <= code <= 1014 and code not in {1004, 1005, 1006}  # noqa: PLR2004  # RFC 6455, 7.4
    if len(payload) < 2 or not (known or 3000 <= code < 5000):  # noqa: PLR2004
        raise Violation(PROTOCOL, "a close frame without a code")
    return code, _text(payload[2:]).decode()
