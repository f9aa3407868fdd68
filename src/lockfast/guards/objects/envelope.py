"""The format of a guarded object: one line with its mark, then its body. No I/O.

The mark is in the content and not in metadata, because an ETag ignores metadata. A seal that
changed only metadata would not change the ETag, and a stale conditional put would pass (trap 50).
The nonce gives every write an ETag of its own. It also shows a writer that got no reply whether the
object that it reads is its own write.
"""

from __future__ import annotations

import json
import secrets
from typing import NamedTuple

from lockfast.guards.mark import Mark

HEAD = 4096
"""Bytes that always contain the first line. A name has at most 512 bytes, and JSON six for each."""


class Envelope(NamedTuple):
    """One state of a guarded object."""

    name: str
    """The name of the lock that guards it. Tokens of two locks cannot be compared."""
    mark: Mark
    nonce: str
    gone: bool
    """Whether the object was deleted. Its mark is kept."""
    body: bytes


def seal(name: str, mark: Mark, body: bytes | None) -> Envelope:
    """Return the next state of an object. A body of None deletes it."""
    return Envelope(name, mark, secrets.token_hex(8), body is None, body or b"")


def pack(envelope: Envelope) -> bytes:
    """Return the content of the object: one line of JSON, then the body unchanged."""
    head = {
        "lockfast": 1,
        "name": envelope.name,
        "token": str(envelope.mark.token),
        "id": envelope.mark.id,
        "nonce": envelope.nonce,
        "gone": envelope.gone,
    }
    return json.dumps(head).encode() + b"\n" + envelope.body


def unpack(data: bytes) -> Envelope:
    """Return the envelope in the content of an object, or in its first HEAD bytes.

    Raises `ValueError` if the object was not written by a guard.
    """
    head, _, body = data.partition(b"\n")
    try:
        said = json.loads(head)
        if said["lockfast"] != 1:
            raise ValueError(f"version {said['lockfast']!r}")
        mark = Mark(int(said["token"]), said["id"])
        return Envelope(said["name"], mark, said["nonce"], said["gone"], body)
    except Exception as error:  # deeply nested brackets raise a RecursionError
        raise ValueError(
            "this object was not written by a guard, so it has no mark: write it again through "
            "the guard, under another key"
        ) from error
