"""Handles: what later requests about a claim need, sealed so that only the service can make one.

A handle is the claim as msgpack, and an HMAC over it and the client's name. It is not encrypted:
the client knows all that is in it. A replica that has the same key can verify it, and has no table.
"""

from __future__ import annotations

import binascii
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from lockfast.engines.remote.messages import Asked, Id, Name, Number
from lockfast.service.http.messages import LONGEST_HANDLE

TAG = 32  # bytes of an HMAC-SHA256
KEY = 32  # bytes


class BadHandle(ValueError):
    """A text that can be no handle. Its message is safe to be shown."""


class ForeignHandle(ValueError):
    """A handle that this service has not made, or not for this client."""


class Sealed(Struct, array_like=True):
    """What a handle contains."""

    id: Id
    name: Name
    ttl: float
    kind: int
    capacity: int
    weight: int
    ticket: Number
    granted: bool
    keyed: bool
    """Whether the id comes from an `Idempotency-Key`."""

    def asked(self) -> Asked:
        """Return the claim as the messages of the service have it."""
        return Asked(
            self.id,
            self.name,
            self.ttl,
            self.kind,
            self.capacity,
            self.weight,
            ticket=self.ticket,
            granted=self.granted,
        )


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Sealed).decode


def new_key() -> bytes:
    """Return a random key. Handles that are sealed with it end with this process."""
    return secrets.token_bytes(KEY)


class Seal:
    """The keys of the handles: the first one seals, and all of them verify."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Take at least one key."""
        self._handles = [_derived(key, b"handle") for key in keys]
        self._ids = _derived(keys[0], b"id")

    def close(self, sealed: Sealed, subject: str) -> str:
        """Return the handle of a claim, for the client with this name."""
        body = _encode(sealed)
        tag = _tag(self._handles[0], subject, body)
        return urlsafe_b64encode(tag + body).rstrip(b"=").decode()

    def open(self, handle: str, subject: str) -> Sealed:
        """Return what a handle of this client contains.

        Raises `BadHandle` if it is none, `ForeignHandle` if it is forged or another client's.
        """
        if len(handle) > LONGEST_HANDLE:
            raise BadHandle("the handle is too long")
        try:
            raw = urlsafe_b64decode(handle.encode("ascii") + b"=" * (-len(handle) % 4))
        except (UnicodeEncodeError, binascii.Error):
            raise BadHandle("this is not a handle of the service") from None
        if len(raw) <= TAG:
            raise BadHandle("this is not a handle of the service")
        tag, body = raw[:TAG], raw[TAG:]
        good = [hmac.compare_digest(tag, _tag(key, subject, body)) for key in self._handles]
        if not any(good):
            raise ForeignHandle(
                "this replica did not make the handle, or not for this API key. Replicas accept "
                "the handles of each other if they have the same handle_key_file"
            )
        try:
            return _decode(body)
        except msgspec.DecodeError:  # of another version
            raise BadHandle("this version of the service cannot read the handle") from None

    def derived(self, subject: str, key: str, about: str) -> str:
        """Return the id of a claim with an `Idempotency-Key`. `about`: the lock, since a claim for
        another lock is another one.
        """
        # The lengths come first: no two triples are the same text.
        whole = _encode((subject, key, about))
        return hmac.digest(self._ids, whole, "sha256")[:16].hex()


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"lockfast " + purpose, "sha256")


def _tag(key: bytes, subject: str, body: bytes) -> bytes:
    return hmac.digest(key, sha256(subject.encode()).digest() + body, "sha256")
