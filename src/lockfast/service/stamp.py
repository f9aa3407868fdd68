"""Writes into the payload of a claim who has made it. A client cannot write that itself."""

from __future__ import annotations

import json
from functools import lru_cache

import msgspec

from lockfast.engines.remote.messages import LONGEST_PAYLOAD
from lockfast.errors import EngineRefused

SUBJECT, ADDRESS = "subject", "address"  # the fields, which `claims.payload` reads
SHORT = 1_024  # bytes of a payload whose stamped form is cached: each renewal has it again
_parsed = msgspec.json.Decoder(dict[str, msgspec.Raw])
_written = msgspec.json.Encoder().encode


class Stamp:
    """The subject and address of one client."""

    __slots__ = ("_tail",)

    def __init__(self, subject: str, address: str) -> None:
        """Take what is to be written. An empty address is left out."""
        fields = {SUBJECT: subject, ADDRESS: address}
        self._tail = json.dumps({key: text for key, text in fields.items() if text})[1:].encode()

    def on(self, payload: bytes) -> bytes:
        """Return a payload that says who the client is. What the client has said about that itself
        is left out. Raise `EngineRefused` if the payload is too large then.
        """
        found = _short(payload, self._tail) if len(payload) < SHORT else _on(payload, self._tail)
        if len(found) > LONGEST_PAYLOAD:
            raise EngineRefused(f"a payload of {len(found)} bytes with its subject is too large")
        return found


def _on(payload: bytes, tail: bytes) -> bytes:
    # Without an escape, a field that the client has written itself could not be missed here. If
    # this is no object, it is none afterwards: the tail has one bracket, which was the last one.
    if (
        payload.startswith(b'{"')
        and payload.endswith(b"}")
        and b"\\u" not in payload
        and b'"subject"' not in payload
        and b'"address"' not in payload
    ):
        return b"%b, %b" % (payload[:-1], tail)
    try:
        said = _parsed.decode(payload) if payload else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        said = {}  # it describes nobody: readers would call it unreadable
    said.pop(SUBJECT, None)
    said.pop(ADDRESS, None)
    if not said:
        return b"{" + tail
    return b"%b, %b" % (_written(said)[:-1], tail)


_short = lru_cache(4096)(_on)
