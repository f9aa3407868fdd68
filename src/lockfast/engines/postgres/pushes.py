"""Reads notifications of grants, signed with a word that only the client and the server know.

Every user of a database may notify every channel, and every lock user can list the ids of claims.
So a notification without a valid signature is only a hint to read the queue.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from hashlib import blake2b, sha256

from lockfast.port import Wake

END = 2**53  # every ticket is below it


class Pushes:
    """Makes the words of one client's claims, and checks its notifications with them."""

    def __init__(self) -> None:
        """Choose the secret from which all words are made, so that no word has to be kept."""
        self._secret = secrets.token_bytes(32)

    def word(self, ident: str) -> str:
        """Return the word that signs the notification of a claim, in hexadecimal digits."""
        return blake2b(ident.encode(), key=self._secret, digest_size=16).hexdigest()

    def read(self, messages: Iterable[bytes]) -> list[Wake]:
        """Return the wakes for notifications. Each has an id, a floor and a signature of both."""
        return [wake for message in messages if (wake := self._read(message)) is not None]

    def _read(self, message: bytes) -> Wake | None:
        ident, _, rest = message.partition(b" ")
        floor, _, signature = rest.partition(b" ")
        if not ident.isalnum():
            return None
        name = ident.decode("ascii")
        signed = sha256(self.word(name).encode() + b" " + floor).hexdigest().encode()
        if hmac.compare_digest(signed, signature) and floor.isdigit() and int(floor) < END:
            return Wake(name, granted=True, floor=int(floor))
        return Wake(name, granted=False)
