"""A re-entrant lock: one claim and one token, however deep its thread or task goes in."""

from __future__ import annotations

from typing import Generic, TypeVar

from lockfast.acquire import acquire, release
from lockfast.errors import NotAcquired
from lockfast.nouns.lease import LeaseCore
from lockfast.nouns.lock import Default, LockCore, checked_timeout
from lockfast.session import Session

R = TypeVar("R", bound="RLeaseCore")


class Hold:
    """What the frames of one thread or task share."""

    __slots__ = ("__weakref__", "depth", "first")

    first: RLeaseCore

    def __init__(self) -> None:
        """Begin outside."""
        self.depth = 0


class RLeaseCore(LeaseCore):
    """One frame's part in a lease. The outermost release gives it back."""

    __slots__ = ("_hold", "_left")

    def __init__(self, session: Session) -> None:
        """Begin without a grant."""
        super().__init__(session)
        self._left = False

    def _enter(self, hold: Hold) -> None:
        self._hold = hold
        hold.depth += 1

    async def _release(self) -> None:
        """Leave this frame; the outermost gives the lease back. Twice is fine."""
        if not self._left:
            self._left = True
            self._hold.depth -= 1
        if self._hold.depth == 0:
            await release(self._session, self.live)


class RLockCore(LockCore[R], Generic[R]):
    """A description. Who is in is known by thread or task, as `threading.RLock` does it."""

    __slots__ = ()

    async def _acquire(self, *, timeout: float | Default | None = Default.OF_LOCK) -> R:
        """Wait for the grant, unless this thread or task has it already.

        An inner frame of a lease that was lost gets `LeaseLost`: a new grant would hide that what
        the outer frame protects is another's by now.
        """
        session = self._session
        key = (session.runtime.worker()[0], self.name)
        hold = session.holds.get(key)
        if hold is not None and hold.depth:
            hold.first.ensure_held()
            lease = self._lease_type(session)
            lease.live = hold.first.live
            lease._enter(hold)  # noqa: SLF001  # a part of it
            return lease
        wait = self._timeout if timeout is Default.OF_LOCK else checked_timeout(timeout)
        hold = Hold()
        lease = await acquire(session, self._shape, wait, self._purpose, self._lease_type, hold)
        hold.first = lease
        lease._enter(hold)  # noqa: SLF001  # a part of it
        lease.live.handed = True
        session.holds[key] = hold
        return lease

    async def _try_acquire(self) -> R | None:
        """Return a lease if the lock is free or ours, else None."""
        try:
            return await self._acquire(timeout=0.0)
        except NotAcquired:
            return None
