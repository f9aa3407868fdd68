"""The ids of a client's claims: 88 bits that identify the client, and 40 unpredictable bits."""

from __future__ import annotations

import secrets
from itertools import count

from lockfast.port import CLIENT

HALF = 20  # bits
MASK = (1 << HALF) - 1
FIRST = 1 << 2 * HALF  # added so that `hex` keeps leading zeros: half the time of a format
ROUNDS = 4


class Ids:
    """Generates ids that are unique, and that cannot be predicted from earlier ones.

    On PostgreSQL a role that may acquire locks sees the ids of all other clients. If it could
    predict the next ones, it could make claims with them.
    """

    def __init__(self, client: str | None = None) -> None:
        """Choose random keys, and a random name of the client unless its engine has given one."""
        self.client = client or secrets.token_hex(CLIENT // 2)
        self._keys = [secrets.token_bytes(16) for _ in range(ROUNDS)]
        self._numbers = count()

    def new(self) -> str:
        """Return the next id.

        A Feistel network permutes the count, so no id comes twice, whatever its hash function. The
        `hash` of bytes is SipHash, and takes a tenth of the time of `hashlib`.
        """
        number = next(self._numbers)
        left, right = number >> HALF & MASK, number & MASK
        for key in self._keys:
            left, right = right, left ^ hash(key + right.to_bytes(3, "big")) & MASK
        return self.client + hex(FIRST | left << HALF | right)[3:]
