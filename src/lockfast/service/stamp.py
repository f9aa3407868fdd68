"""Writes into the payload of a claim who has made it. A client cannot write that itself."""

from __future__ import annotations

import json
from functools import lru_cache

from lockfast.claims.untrusted import parsed
from lockfast.engines.remote.messages import LONGEST_PAYLOAD
from lockfast.errors import EngineRefused

SUBJECT, ADDRESS = "subject", "address"  # the fields, which `claims.payload` reads
SHORT = 1_024  # bytes of a payload whose stamped form is cached: each renewal has it again
OWN = (b'"subject"', b'"address"', b"\\u", b"\0")  # a zero byte: it is UTF-16
HOLDING = "holding"  # the only field with more than one value
DEEP = 64  # brackets: a reader with a deep stack could not read many more


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
    said = parsed(payload)  # as readers do: what they could not read would hide the subject too
    if not said:
        return b"{" + tail
    # Without an escape, a field that the client has written itself could not be missed here.
    if (
        payload.endswith(b"}")
        and payload.count(b"{") + payload.count(b"[") < DEEP
        and not any(each in payload for each in OWN)
    ):
        return b"%b, %b" % (payload[:-1], tail)
    kept = {key: value for key, value in said.items() if key not in {SUBJECT, ADDRESS}}
    holding = kept.get(HOLDING)
    kept = {key: value for key, value in kept.items() if not isinstance(value, dict | list)}
    if isinstance(holding, dict) and all(isinstance(each, str) for each in holding.values()):
        kept[HOLDING] = holding
    if not kept:
        return b"{" + tail
    written = json.dumps(kept, ensure_ascii=False).encode(errors="replace")
    return b"%b, %b" % (written[:-1], tail)


_short = lru_cache(4096)(_on)
