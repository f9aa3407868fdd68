"""A lock: an immutable description, free to share. Acquiring it gives a lease."""

from __future__ import annotations

import math
from collections.abc import Coroutine
from enum import Enum
from typing import Any, Generic, NoReturn, Self, TypeVar

from lockfast.claims import payload
from lockfast.claims.acquire import acquire
from lockfast.claims.session import Session
from lockfast.errors import EngineUnavailable, NotAcquired
from lockfast.port import LONGEST_WAIT, Entry, Shape
from lockfast.primitives.lease import LeaseCore

L = TypeVar("L", bound=LeaseCore)


class Default(Enum):
    """What an argument is when it is not given, where None has a meaning of its own."""

    OF_LOCK = "as the lock says"


class LockCore(Generic[L]):
    """What a lock does, blocking or asyncio. Nothing about ownership is kept here (traps 4, 5)."""

    __slots__ = ("_at_least", "_lease_type", "_purpose", "_session", "_shape", "_timeout")

    def __init__(  # noqa: PLR0913, PLR0917  # made by the facades alone
        self,
        session: Session,
        lease_type: type[L],
        shape: Shape,
        timeout: float | None,
        purpose: str,
        at_least: float = 0.0,
    ) -> None:
        """Describe; nothing is sent."""
        if not 0.0 <= at_least <= shape.ttl:
            raise ValueError(
                f"at_least is 0 to the ttl of {shape.ttl:g} seconds, not {at_least!r}: the lock "
                "must outlast the process that took it. Raise the ttl, or lower at_least."
            )
        self._at_least = at_least
        self._session = session
        self._lease_type = lease_type
        self._shape = shape
        self._timeout = checked_timeout(timeout)
        self._purpose = purpose

    @property
    def name(self) -> str:
        """The resource."""
        return self._shape.name

    @property
    def ttl(self) -> float:
        """Seconds for which a grant lasts without a renewal."""
        return self._shape.ttl

    def __repr__(self) -> str:
        """Show name and ttl."""
        return f"<{type(self).__name__} {self.name!r} ttl={self.ttl:g}>"

    def _acquire(
        self, *, timeout: float | Default | None = Default.OF_LOCK
    ) -> Coroutine[Any, Any, L]:
        """Wait for the grant, `timeout` seconds at most (None: for ever), and return the lease.

        Raises `NotAcquired` when the time is over.
        """
        wait = self._timeout if timeout is Default.OF_LOCK else checked_timeout(timeout)
        return acquire(
            self._session,
            self._shape,
            wait,
            self._purpose,
            self._lease_type,
            at_least=self._at_least,
        )

    def _acquire_in(self, block: object) -> Coroutine[Any, Any, L]:
        """Acquire for as long as `block` lives, at the longest."""
        return acquire(
            self._session,
            self._shape,
            self._timeout,
            self._purpose,
            self._lease_type,
            block,
            self._at_least,
        )

    def _renamed(self, name: str) -> Self:
        """Describe the same of another resource."""
        shape = self._shape
        template = shape.template if name == shape.name else shape.name
        other = Shape(name, shape.ttl, shape.capacity, shape.weight, template)
        return type(self)(
            self._session, self._lease_type, other, self._timeout, self._purpose, self._at_least
        )

    async def _try_acquire(self) -> L | None:
        """Return a lease if the lock is free now, else None."""
        try:
            return await self._acquire(timeout=0.0)
        except NotAcquired:
            return None

    async def _holders(self) -> list[Holder]:
        """Return who holds it now."""
        return [each for each in await self._queue() if each.granted]

    async def _queue(self) -> list[Holder]:
        """Return who holds it and who waits for it, in the order of tickets."""
        return [Holder(entry) for entry in await look(self._session, self.name)]

    def release(self) -> NoReturn:
        """Explain: a lock has no holder, a lease has."""
        raise TypeError(
            f"the lock {self.name!r} has no release(): each acquire() returns a lease. Keep it and "
            "release it (`lease = lock.acquire()`, then `lease.release()`), or use `with lock:`."
        )


class Holder:
    """A claim on a resource, as everybody can see it."""

    __slots__ = (
        "capacity",
        "granted",
        "holding",
        "id",
        "left",
        "name",
        "ticket",
        "value",
        "weight",
        "who",
    )

    def __init__(self, entry: Entry) -> None:
        """Read an entry."""
        self.name = entry.name
        self.id = entry.id
        self.ticket = entry.ticket
        self.granted = entry.granted
        self.weight = entry.weight
        self.capacity = entry.capacity
        self.left = entry.left
        self.who = payload.read(entry.payload)
        self.holding = payload.holding(entry.payload)
        """What its thread or task held when it asked: names by the ids of the claims."""
        self.value = payload.value(entry.payload)
        """What a leader, or a candidate, publishes."""

    @property
    def token(self) -> int | None:
        """The fencing token, of whoever holds it alone."""
        return self.ticket if self.granted and self.weight == self.capacity else None

    @property
    def life(self) -> float:
        """Seconds that a renewal gives it; 0 if it did not say. A waiter has ten at most."""
        return self.who.ttl if self.granted else min(self.who.ttl, LONGEST_WAIT)

    def __repr__(self) -> str:
        """Show it in words."""
        role = "holds" if self.granted else "waits for"
        return f"<{self.who} {role} {self.name!r}, ticket {self.ticket}, {self.left:.1f} s left>"


async def look(session: Session, name: str) -> list[Entry]:
    """Read a queue."""
    session.enter()
    try:
        page = await session.engine.inspect(name, None, exact=True)
    except EngineUnavailable:  # a connection that ended while nobody used it; reading is free
        page = await session.engine.inspect(name, None, exact=True)
    return page.entries


def patience(on_busy: str, timeout: float | None) -> float | None:
    """Return the timeout that goes with what is to be done when a lock is busy."""
    if on_busy not in {"wait", "raise", "skip"}:
        raise ValueError(f"on_busy is 'wait', 'raise' or 'skip', not {on_busy!r}")
    return 0.0 if timeout is None and on_busy != "wait" else timeout


def checked_timeout(timeout: float | None) -> float | None:
    """Return `timeout`, or say what is wrong with it: a wait of 0.5 s is not 0 (trap 8)."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout is a number of seconds or None, not {timeout!r}")
    if math.isnan(timeout) or timeout < 0:
        raise ValueError(
            f"the timeout is 0 seconds or more, not {timeout!r}. Without one a wait has no end."
        )
    return None if math.isinf(timeout) else float(timeout)
