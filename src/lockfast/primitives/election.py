"""An election: the holder of a lock is the leader, and its token is the term."""

from __future__ import annotations

import logging
from typing import Generic, NamedTuple, TypeVar

from lockfast.claims import payload
from lockfast.claims.acquire import acquire
from lockfast.claims.payload import LONGEST_VALUE, Who
from lockfast.claims.session import Session
from lockfast.errors import EngineUnavailable
from lockfast.names import size_of
from lockfast.port import Entry, Shape
from lockfast.primitives.lease import LeaseCore
from lockfast.primitives.lock import checked_timeout, look

log = logging.getLogger("lockfast")
L = TypeVar("L", bound=LeaseCore)


class Leader(NamedTuple):
    """Who leads, as everybody can see it."""

    term: int
    """Higher than that of every earlier leader: show it to whatever the leader writes to."""
    value: str
    """What the leader published."""
    who: Who
    left: float
    """Seconds for which the engine keeps it unless it is renewed."""
    id: str


class ElectionCore(Generic[L]):
    """A description. `campaign` waits to become the leader; a lease is the leadership."""

    __slots__ = ("_lease_type", "_session", "_shape")

    def __init__(self, session: Session, lease_type: type[L], name: str, ttl: float) -> None:
        """Describe; nothing is sent."""
        self._session = session
        self._lease_type = lease_type
        self._shape = Shape(name, ttl)

    @property
    def name(self) -> str:
        """What is led."""
        return self._shape.name

    @property
    def ttl(self) -> float:
        """Seconds for which a leader that died stays the leader."""
        return self._shape.ttl

    def __repr__(self) -> str:
        """Show the name."""
        return f"<{type(self).__name__} {self.name!r}>"

    async def _campaign(self, value: str = "", *, timeout: float | None = None) -> L:
        """Wait to become the leader, and return the lease: its token is the term.

        `value`: what the others should know, such as this leader's address. `lease.release()`
        resigns.
        """
        if size_of(value, "a leader's value") > LONGEST_VALUE:
            raise ValueError(f"a leader publishes {LONGEST_VALUE} bytes at most")
        wait = checked_timeout(timeout)
        return await acquire(self._session, self._shape, wait, "", self._lease_type, value=value)

    async def _leader(self) -> Leader | None:
        """Return who leads now; None if nobody does."""
        entries = await look(self._session, self.name)
        return next((_leader(entry) for entry in entries if entry.granted), None)


class Observer:
    """A stream of leaders: each new one, in the order of terms. Looked for every so often."""

    def __init__(self, election: ElectionCore[L], session: Session, every: float) -> None:
        """Begin with whoever leads now."""
        self._election = election
        self._session = session
        self._every = every
        self._term = 0

    async def following(self) -> Leader:
        """Wait for the next leader, also through times in which the engine cannot be reached."""
        while True:
            leader = None
            try:
                leader = await self._election._leader()  # noqa: SLF001  # a part of it
            except EngineUnavailable as error:
                log.warning("nobody can tell who leads %r: %s", self._election.name, error)
            if leader is not None and leader.term > self._term:
                self._term = leader.term
                return leader
            await self._session.runtime.sleep(self._every)


def _leader(entry: Entry) -> Leader:
    raw = entry.payload
    return Leader(entry.ticket, payload.value(raw), payload.read(raw), entry.left, entry.id)
