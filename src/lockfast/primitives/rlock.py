"""Re-entrant locks: the thread or task that holds one can acquire it again, with the same token."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

from lockfast.claims.acquire import acquire
from lockfast.claims.claim import Claim
from lockfast.claims.release import give_up, lost, release
from lockfast.claims.session import Session
from lockfast.errors import NotAcquired
from lockfast.primitives.lease import LeaseCore, warn_if_held
from lockfast.primitives.lock import Default, LockCore
from lockfast.primitives.timeout import checked_timeout
from lockfast.primitives.with_block import Block

R = TypeVar("R", bound="RLeaseCore")


class Hold:
    """The claim that all frames of one thread or task share. A frame is one acquisition.

    The hold lives as long as any of its frames is wanted. The block of a `with` statement keeps it
    alive, and so does the lease that `acquire()` returned.
    """

    __slots__ = ("__weakref__", "claim", "frames")

    claim: Claim

    def __init__(self) -> None:
        """Create a hold without a claim and without frames."""
        self.frames: weakref.WeakSet[RLeaseCore] = weakref.WeakSet()
        """The frames that were not released. Weak references: a dropped frame must not keep the
        lock held when the others are released."""

    def __del__(self) -> None:
        """Warn if the hold was dropped while held: no frame can release it any more."""
        claim = getattr(self, "claim", None)
        if claim is not None and claim.handed:
            warn_if_held(claim)


class RLeaseCore(LeaseCore):
    """The lease of one frame of a re-entrant lock. Releasing the last frame releases the lock."""

    __slots__ = ("_frames", "_keep")

    def __init__(self, session: Session) -> None:
        """Create a lease without a claim. `_enter` sets the claim."""
        super().__init__(session)
        self._keep: Hold | None = None

    def __del__(self) -> None:
        """Do not warn: other frames may still hold the lock. `Hold` warns."""

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
        """Release this acquisition. Releasing the last one of a thread or task frees the lock.

        A second call has no effect.

        Raises:
            LeaseLost: The lease was lost before. The last release raises this, once.
            EngineError: The engine has not confirmed the release. You can call it again, and
                lockfast keeps trying in the background.
        """
        self._frames.discard(self)
        if not self._frames:
            await release(self._session, self.claim)

    def _abandon(self) -> None:
        """Release this frame without waiting for the engine."""
        self._frames.discard(self)
        if not self._frames:
            give_up(self._session, self.claim)


class RLockCore(LockCore[R], Generic[R]):
    """The shared part of sync and async re-entrant locks. As with `threading.RLock`, the thread (or
    task) that has acquired the lock can acquire it again.
    """

    __slots__ = ()

    def acquire(self, *, timeout: float | Default | None = Default.OF_LOCK) -> Any:  # noqa: ANN401  # each mode has its own type
        """Acquire the lock, or acquire it again if this thread or task already holds it.

        Args:
            timeout: Seconds to wait. None waits for ever. It defaults to the lock's own timeout.

        Returns:
            The lease of this acquisition. In asyncio, `await` the call, or use it in `async with`.

        Raises:
            NotAcquired: The lock was not granted in time.
            LeaseLost: This thread or task held the lock and has lost it.
            Deadlock: The wait could never end.
            KindMismatch: The name is in use for another kind of lock.
            GuaranteeMissing: The engine guarantees less than `connect(require=...)` asks for.
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.
            TypeError: The timeout is not a number, or `purpose` is not a str.
            ValueError: The timeout is negative.

        Example:
            ::

                lock = client.rlock("account:7", ttl=10)
                outer, inner = lock.acquire(), lock.acquire()
                inner.release()  # the lock is still held
                outer.release()
        """
        raise NotImplementedError

    async def _acquire(
        self,
        *,
        timeout: float | Default | None = Default.OF_LOCK,
        block: Block[Any, Any] | None = None,
    ) -> R:
        """Acquire the lock, or enter it again if this thread or task already holds it.

        Raises `LeaseLost` if the outer lease was lost: a new grant would hide from the outer frame
        that another process may have held the lock in between.
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
        # The claim is wanted as long as the hold lives. If Ctrl-C strikes before the hold is
        # stored, the hold dies, and the heart resigns the claim.
        hold = Hold()
        lease = await acquire(
            session,
            self._shape,
            wait,
            self._purpose,
            self._lease_type,
            hold,
            at_most=self._at_most,
        )
        hold.claim = lease.claim
        session.holds[key] = hold
        lease._enter(hold, block)  # noqa: SLF001  # a part of it
        return lease

    async def _try_acquire(self) -> R | None:
        """Acquire the lock if it is free, or if this thread or task already holds it.

        Returns:
            The lease, or None if another thread, task or process holds the lock.

        Raises:
            LeaseLost: This thread or task held the lock and has lost it.
            KindMismatch: The name is in use for another kind of lock.
            GuaranteeMissing: The engine guarantees less than `connect(require=...)` asks for.
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.
        """
        try:
            return await self._acquire(timeout=0.0)
        except NotAcquired:
            return None
