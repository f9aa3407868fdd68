"""Pushes: notifications of a grant, signed by a word that only its client and the server know.

Every user of a database may notify every channel, and everybody is shown the ids of claims: a
notification that is not signed is no more than a hint to look.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from hashlib import blake2b, sha256

from lockfast.port import Wake

END = 2**53  # of tickets


class Pushes:
    """What one client can believe."""

    def __init__(self) -> None:
        """Choose the secret from which all words are made: there is nothing to keep per claim."""
        self._secret = secrets.token_bytes(32)

    def word(self, ident: str) -> str:
        """Return the word of a claim, in hexadecimal digits."""
        return blake2b(ident.encode(), key=self._secret, digest_size=16).hexdigest()

    def read(self, messages: Iterable[bytes]) -> list[Wake]:
        """Read notifications: an id, a floor, a signature of both."""
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
