"""The identity of a client of the service: a secret, the name derived from it, and the epoch.

The ids of claims are public, because `inspect` shows them. So an id does not prove whose claim it
is. The first digits of a client's ids are a hash of its secret. Every replica can check that
without a shared key, and without having seen the client before.

The secret is new in every process and in every fork. If it came from a configuration, two processes
with one configuration would make the same ids, and both would be told that they hold the lock.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b
from itertools import count

from lockfast.port import CLIENT

BYTES = 32  # of the secret


def new_secret() -> str:
    """Return a new secret."""
    return secrets.token_urlsafe(BYTES)


def client_of(secret: str) -> str:
    """Return the name of the client with this secret: the first digits of its ids."""
    return blake2b(secret.encode(), digest_size=CLIENT // 2, person=b"lockfast").hexdigest()


class Identity:
    """The identity of one engine. The engine of an asyncio client shares it with its stand-in."""

    def __init__(self) -> None:
        """Choose a secret. The first connection has epoch 1."""
        self.secret = new_secret()
        self.client = client_of(self.secret)
        self._epochs = count(1)
        self.epoch = 0
        """The epoch of the latest connection. Nothing may be sent on an earlier one, because an
        engine may have moved the claims to the replica of the latest one."""
        self.moves = True
        """Whether another replica can renew the claims, as far as the latest replica has said."""

    def next_epoch(self) -> int:
        """Begin a connection: return its epoch. All earlier connections are outdated from now on.
        Callable from any thread.
        """
        epoch = next(self._epochs)
        self.epoch = max(self.epoch, epoch)
        return epoch
