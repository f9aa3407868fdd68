"""Several locks acquired together, all or nothing. Losing one of them counts as losing all."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from lockfast.claims.acquire_all import Together, release_all
from lockfast.claims.session import Session
from lockfast.core.validity import State
from lockfast.errors import Loss, NotAcquired
from lockfast.port import Shape
from lockfast.primitives.lease import LeaseCore, refuse_coroutine, wait_end, warn_if_held
from lockfast.primitives.lock import Default
from lockfast.primitives.timeout import checked_at_most, checked_timeout

L = TypeVar("L", bound=LeaseCore)
M = TypeVar("M", bound="MultiLeaseCore[Any]")
WORST = (State.LOST, State.RELEASED, State.JEOPARDY, State.HELD)


class MultiLeaseCore(Generic[L]):
    """The leases of several locks that were acquired together. It is lost when any of them is lost.

    Keep this object: a reference to one of its leases does not keep that lease alive.
    """

    __slots__ = ("__weakref__", "_session", "leases")

    leases: dict[str, L]
    """The lease of each lock, by name. Pass these to guards."""

    def __init__(self, session: Session) -> None:
        """Create it without leases. `acquire` sets them."""
        self._session = session

    def __del__(self) -> None:
        """Warn if the leases were dropped while held, since they cannot be released any more."""
        claims = [lease.claim for lease in getattr(self, "leases", {}).values()]
        if claims and claims[0].handed:
            warn_if_held(*claims)

    @property
    def tokens(self) -> dict[str, int]:
        """The fencing token of each lock, by the lock's name."""
        return {name: lease.token for name, lease in self.leases.items()}

    @property
    def state(self) -> State:
        """The worst state of all leases: LOST, then RELEASED, JEOPARDY and HELD."""
        return min((lease.state for lease in self.leases.values()), key=WORST.index)

    @property
    def remaining(self) -> float:
        """Seconds for which all leases are certainly valid, even if the next renewal fails."""
        return min(lease.remaining for lease in self.leases.values())

    @property
    def loss(self) -> Loss | None:
        """Why the first lease that is not held has ended. None while all are held."""
        losses = (lease.loss for lease in self.leases.values())
        return next((loss for loss in losses if loss is not None), None)

    def ensure_held(self) -> None:
        """Raise `LeaseLost` unless all leases are held now. It sends nothing.

        Raises:
            LeaseLost: One of the leases is lost, or was released.
        """
        for lease in self.leases.values():
            lease.ensure_held()

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call a function once, when the first of the leases is lost. See `Lease.on_lost`.

        Args:
            callback: A plain function without arguments. It must be quick and must not wait.

        Raises:
            TypeError: The callback is a coroutine function.
        """
        refuse_coroutine(callback)
        told: list[bool] = []

        def once() -> None:
            if not told:
                told.append(True)
                callback()

        for lease in self.leases.values():
            lease.on_lost(once)

    def __repr__(self) -> str:
        """Show the names and the state."""
        return f"<{type(self).__name__} {sorted(self.leases)} {self.state.value}>"

    def _release(self) -> Coroutine[Any, Any, None]:
        """Release all leases. See `MultiLease.release`."""
        return release_all(self._session, [lease.claim for lease in self.leases.values()])

    async def _wait_lost(self, timeout: float | None = None) -> bool:
        """Wait until one of the leases is lost or released.

        Args:
            timeout: Seconds to wait. None waits for ever.

        Returns:
            True when one has ended, and False if the timeout came first.

        Raises:
            Deadlock: A callback of lockfast called this.
            ClientClosed: The client was closed.
            TypeError: The timeout is not a number.
            ValueError: The timeout is negative.
        """
        claims = [lease.claim for lease in self.leases.values()]
        return await wait_end(self._session, claims, timeout)


class MultiLockCore(Generic[L, M]):
    """The shared part of sync and async multi-locks. Names are sorted, and duplicates removed."""

    __slots__ = (
        "_all_type",
        "_at_most",
        "_lease_type",
        "_purpose",
        "_session",
        "_shapes",
        "_timeout",
    )

    def __init__(  # noqa: PLR0913, PLR0917  # made by the facades alone
        self,
        session: Session,
        lease_type: type[L],
        all_type: Callable[[Session], M],
        names: Sequence[str],
        ttl: float,
        timeout: float | None,
        purpose: str,
        at_most: float | None,
    ) -> None:
        """Create the description. Nothing is sent."""
        if not names:
            raise ValueError("lock_all() needs at least one name")
        if not all(isinstance(name, str) for name in names):
            raise TypeError("lock_all() takes each name as a separate argument: lock_all(*names)")
        self._session = session
        self._lease_type = lease_type
        self._all_type = all_type
        self._shapes = [Shape(name, ttl) for name in sorted(set(names))]
        self._timeout = checked_timeout(timeout)
        self._purpose = purpose
        self._at_most = checked_at_most(at_most)

    @property
    def names(self) -> list[str]:
        """The names of the locks, in the order in which they are acquired."""
        return [shape.name for shape in self._shapes]

    def __repr__(self) -> str:
        """Show the names."""
        return f"<{type(self).__name__} {self.names}>"

    def acquire(self, *, timeout: float | Default | None = Default.OF_LOCK) -> Any:  # noqa: ANN401  # each mode has its own type
        """Wait until all locks are granted, and return their leases. If it raises, none is held.

        Args:
            timeout: Seconds to wait for all locks together. None waits for ever. It defaults to the
                timeout that was passed to `lock_all`.

        Returns:
            The leases. In asyncio, `await` the call, or use it in `async with`.

        Raises:
            NotAcquired: A lock was not granted in time. Its `name` is that lock.
            Deadlock: The wait could never end.
            KindMismatch: The name is in use for another kind of lock.
            GuaranteeMissing: The engine guarantees less than `connect(require=...)` asks for.
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.
            TypeError: The timeout is not a number, or `purpose` is not a str.
            ValueError: The timeout is negative.

        Example:
            ::

                leases = client.lock_all("account:7", "account:8", ttl=10).acquire(timeout=5)
                try:
                    leases.ensure_held()
                finally:
                    leases.release()
        """
        raise NotImplementedError

    async def _acquire(
        self, *, timeout: float | Default | None = Default.OF_LOCK, block: object = None
    ) -> M:
        """Acquire all locks and return their leases. See `MultiLock.acquire`."""
        wait = self._timeout if timeout is Default.OF_LOCK else checked_timeout(timeout)
        session = self._session
        found = self._all_type(session)
        keeper = found if block is None else block
        several = Together(session, self._shapes, self._purpose, self._lease_type, keeper)
        # Nothing is called between the grant and the caller's assignment, so that Ctrl-C cannot
        # strike in between: see `drive`.
        found.leases = await several.acquire(wait, self._at_most, handed=block is None)
        return found

    async def _try_acquire(self) -> M | None:
        """Acquire all locks if all are free. It does not wait for a holder.

        Returns:
            The leases, or None if any of the locks is not free now. Then none is held.

        Raises:
            KindMismatch: The name is in use for another kind of lock.
            GuaranteeMissing: The engine guarantees less than `connect(require=...)` asks for.
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.
        """
        try:
            return await self._acquire(timeout=0.0)
        except NotAcquired:
            return None
