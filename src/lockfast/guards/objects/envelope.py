"""The envelope: a guarded object's body, with its mark in front. Pure.

The mark is inside the body and not in metadata: an ETag ignores metadata, so a seal that changed
nothing else would leave it as it was, and a stale conditional put would pass (trap 50). The nonce
makes every write's ETag its own, and tells a writer whose reply was lost that the write is its own.
"""

from __future__ import annotations

import json
import secrets
from typing import NamedTuple

from lockfast.guards.mark import Mark

HEAD = 4096
"""Bytes within which the first line ends: a name has 512 bytes at most, and JSON six for each."""


class Envelope(NamedTuple):
    """One state of a guarded object."""

    name: str
    """The lock that guards it: tokens of two names do not compare."""
    mark: Mark
    nonce: str
    gone: bool
    """A tombstone: the object was deleted, its mark was not."""
    body: bytes


def seal(name: str, mark: Mark, body: bytes | None) -> Envelope:
    """Make the next state of an object; None for one that is deleted."""
    return Envelope(name, mark, secrets.token_hex(8), body is None, body or b"")


def pack(envelope: Envelope) -> bytes:
    """Write it: one line of JSON, then the body as it is."""
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
    """Read it, or the beginning of it; ValueError if it is none."""
    head, _, body = data.partition(b"\n")
    try:
        said = json.loads(head)
        if said["lockfast"] != 1:
            raise ValueError(f"version {said['lockfast']!r}")
        mark = Mark(int(said["token"]), said["id"])
        return Envelope(said["name"], mark, said["nonce"], said["gone"], body)
    except Exception as error:  # brackets in brackets are a RecursionError
        raise ValueError(
            "this object was not written by a guard, so it has no mark: write it anew, through "
            "the guard, under a key of its own"
        ) from error
