"""Many locks as one: all or nothing, and lost together."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from lockfast.claims.acquire_all import Together, release_all
from lockfast.claims.session import Session
from lockfast.core.validity import State
from lockfast.errors import Loss, NotAcquired
from lockfast.port import Shape
from lockfast.primitives.lease import LeaseCore, refuse_coroutine, wait_end, warn_if_held
from lockfast.primitives.lock import Default, checked_timeout

L = TypeVar("L", bound=LeaseCore)
M = TypeVar("M", bound="MultiLeaseCore[Any]")
WORST = (State.LOST, State.RELEASED, State.JEOPARDY, State.HELD)


class MultiLeaseCore(Generic[L]):
    """Leases of several resources, taken together. It is lost when any of them is lost.

    Whoever has this object is the holder: one of its leases alone keeps nothing.
    """

    __slots__ = ("__weakref__", "_session", "leases")

    leases: dict[str, L]
    """Each lease by its name: what a guard of that resource wants."""

    def __init__(self, session: Session) -> None:
        """Begin without a grant."""
        self._session = session

    def __del__(self) -> None:
        """Warn if they were dropped: nobody can release them any more."""
        claims = [lease.claim for lease in getattr(self, "leases", {}).values()]
        if claims and claims[0].handed:
            warn_if_held(*claims)

    @property
    def tokens(self) -> dict[str, int]:
        """The fencing token of each resource."""
        return {name: lease.token for name, lease in self.leases.items()}

    @property
    def state(self) -> State:
        """The worst state of any."""
        return min((lease.state for lease in self.leases.values()), key=WORST.index)

    @property
    def remaining(self) -> float:
        """Seconds for which all are certainly good."""
        return min(lease.remaining for lease in self.leases.values())

    @property
    def loss(self) -> Loss | None:
        """Why it is not held any more, from the first that is not; None while all are."""
        losses = (lease.loss for lease in self.leases.values())
        return next((loss for loss in losses if loss is not None), None)

    def ensure_held(self) -> None:
        """Raise `LeaseLost` unless all are good now. No I/O."""
        for lease in self.leases.values():
            lease.ensure_held()

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the first of them is lost, once."""
        refuse_coroutine(callback)
        told: list[bool] = []

        def once() -> None:
            if not told:
                told.append(True)
                callback()

        for lease in self.leases.values():
            lease.on_lost(once)

    def __repr__(self) -> str:
        """Show names and state."""
        return f"<{type(self).__name__} {sorted(self.leases)} {self.state.value}>"

    def _release(self) -> Coroutine[Any, Any, None]:
        """Release all. Twice is fine; after a loss it raises `LeaseLost`, once.

        After an engine's error it can be called again.
        """
        return release_all(self._session, [lease.claim for lease in self.leases.values()])

    async def _wait_lost(self, timeout: float | None = None) -> bool:
        """Wait until one is lost or released; False when `timeout` seconds passed first."""
        claims = [lease.claim for lease in self.leases.values()]
        return await wait_end(self._session, claims, timeout)


class MultiLockCore(Generic[L, M]):
    """A description of several locks. Names are sorted, and each is taken once."""

    __slots__ = ("_all_type", "_lease_type", "_purpose", "_session", "_shapes", "_timeout")

    def __init__(  # noqa: PLR0913, PLR0917  # made by the facades alone
        self,
        session: Session,
        lease_type: type[L],
        all_type: Callable[[Session], M],
        names: Sequence[str],
        ttl: float,
        timeout: float | None,
        purpose: str,
    ) -> None:
        """Describe; nothing is sent."""
        if not names:
            raise ValueError("lock_all() of no names: name at least one resource")
        if not all(isinstance(name, str) for name in names):
            raise TypeError(
                "lock_all() takes each name as an argument of its own: lock_all(*names)"
            )
        self._session = session
        self._lease_type = lease_type
        self._all_type = all_type
        self._shapes = [Shape(name, ttl) for name in sorted(set(names))]
        self._timeout = checked_timeout(timeout)
        self._purpose = purpose

    @property
    def names(self) -> list[str]:
        """The resources, in the order in which they are taken."""
        return [shape.name for shape in self._shapes]

    def __repr__(self) -> str:
        """Show the names."""
        return f"<{type(self).__name__} {self.names}>"

    async def _acquire(
        self, *, timeout: float | Default | None = Default.OF_LOCK, block: object = None
    ) -> M:
        """Wait until all are granted, `timeout` seconds at most (None: for ever).

        Raises `NotAcquired` when the time is over; then none is held.
        """
        wait = self._timeout if timeout is Default.OF_LOCK else checked_timeout(timeout)
        session = self._session
        found = self._all_type(session)
        keeper = found if block is None else block
        several = Together(session, self._shapes, self._purpose, self._lease_type, keeper)
        # From here to the caller's assignment nothing is called: see `drive`.
        found.leases = await several.acquire(wait, handed=block is None)
        return found

    async def _try_acquire(self) -> M | None:
        """Return the leases if all are free now, else None."""
        try:
            return await self._acquire(timeout=0.0)
        except NotAcquired:
            return None
