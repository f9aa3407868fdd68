"""An engine that a test asks directly, below the client."""

from __future__ import annotations

import secrets
from itertools import count

from lockfast.engines import opener
from lockfast.port import Ask, Shape
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse

SOON = 5.0


class Port:
    """An engine that is asked directly."""

    def __init__(self, url: str) -> None:
        self.engine = opener(parse(url), Threads())()
        self._prefix = secrets.token_hex(11)
        self._numbers = count()

    def ask(self, name: str = "x", ttl: float = 5.0, *, queue: bool = True) -> Ask:
        shape = Shape(name, ttl)
        ident = f"{self._prefix}{next(self._numbers):010x}"
        return Ask(ident, shape, queue, now() + shape.wait_ttl, b"")

    def granted(self, ask: Ask) -> bool | None:
        """Claim: None if the id is dead."""
        standing = drive(self.engine.claim(ask, now() + SOON))
        return None if standing is None else standing.granted

    def resign(self, ask: Ask, *, doubt: bool = False) -> bool:
        return drive(self.engine.resign([ask], now() + SOON, doubt=doubt)) == [True]

    def renew(self, ask: Ask) -> bool:
        return drive(self.engine.renew([ask], now() + SOON))[0] is not None

    def close(self) -> None:
        drive(self.engine.close())
