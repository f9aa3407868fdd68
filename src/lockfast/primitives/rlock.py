"""A re-entrant lock: one claim and one token, however deep its thread or task goes in."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

from lockfast.claims.acquire import acquire
from lockfast.claims.claim import Claim
from lockfast.claims.release import give_up, lost, release
from lockfast.claims.session import Session
from lockfast.errors import NotAcquired
from lockfast.primitives.lease import LeaseCore, warn_if_held
from lockfast.primitives.lock import Default, LockCore, checked_timeout
from lockfast.primitives.with_block import Block

R = TypeVar("R", bound="RLeaseCore")


class Hold:
    """What the frames of one thread or task share. It lives as long as any of them is wanted: the
    frame of a `with` statement keeps it by its block, the frame of an `acquire()` by its lease.
    """

    __slots__ = ("__weakref__", "claim", "frames")

    claim: Claim

    def __init__(self) -> None:
        """Begin outside."""
        self.frames: weakref.WeakSet[RLeaseCore] = weakref.WeakSet()
        """Those that were not left. Weakly: one that was forgotten must not keep the others in."""

    def __del__(self) -> None:
        """Warn if it was dropped: none of its frames can release it any more."""
        claim = getattr(self, "claim", None)
        if claim is not None and claim.handed:
            warn_if_held(claim)


class RLeaseCore(LeaseCore):
    """One frame's part in a lease. The outermost release gives it back."""

    __slots__ = ("_frames", "_keep")

    def __init__(self, session: Session) -> None:
        """Begin without a grant."""
        super().__init__(session)
        self._keep: Hold | None = None

    def __del__(self) -> None:
        """Leave it to the hold: other frames may be in."""

    def _enter(self, hold: Hold, block: Block[Any, Any] | None) -> None:
        self.claim = hold.claim
        self._frames = hold.frames
        hold.frames.add(self)
        if block is None:
            self._keep = hold
            hold.claim.handed = True
        else:
            block.keep = hold

    async def _release(self) -> None:
        """Leave this frame; the outermost gives the lease back. Twice is fine."""
        self._frames.discard(self)
        if not self._frames:
            await release(self._session, self.claim)

    def _abandon(self) -> None:
        """Leave this frame without waiting."""
        self._frames.discard(self)
        if not self._frames:
            give_up(self._session, self.claim)


class RLockCore(LockCore[R], Generic[R]):
    """A description. Who is in is known by thread or task, as `threading.RLock` does it."""

    __slots__ = ()

    async def _acquire(
        self,
        *,
        timeout: float | Default | None = Default.OF_LOCK,
        block: Block[Any, Any] | None = None,
    ) -> R:
        """Wait for the grant, unless this thread or task has it already.

        An inner frame of a lease that was lost gets `LeaseLost`: a new grant would hide that what
        the outer frame protects is another's by now.
        """
        session = self._session
        key = (session.runtime.worker()[0], self.name)
        hold = session.holds.get(key)
        if hold is not None and hold.frames:
            if hold.claim.expired(session.runtime.now()):
                raise lost(hold.claim)
            lease = self._lease_type(session)
            lease._enter(hold, block)  # noqa: SLF001  # a part of it
            return lease
        wait = self._timeout if timeout is Default.OF_LOCK else checked_timeout(timeout)
        # The claim is wanted as long as the hold lives: Ctrl-C before it is known ends both.
        hold = Hold()
        lease = await acquire(session, self._shape, wait, self._purpose, self._lease_type, hold)
        hold.claim = lease.claim
        session.holds[key] = hold
        lease._enter(hold, block)  # noqa: SLF001  # a part of it
        return lease

    async def _try_acquire(self) -> R | None:
        """Return a lease if the lock is free or ours, else None."""
        try:
            return await self._acquire(timeout=0.0)
        except NotAcquired:
            return None
