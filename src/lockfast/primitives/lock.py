"""Locks: immutable descriptions that can be shared. Each acquisition returns a new lease."""

from __future__ import annotations

from collections.abc import Coroutine
from enum import Enum
from typing import Any, Generic, NoReturn, Self, TypeVar

from lockfast.claims import payload
from lockfast.claims.acquire import acquire
from lockfast.claims.session import Session
from lockfast.errors import EngineUnavailable, NotAcquired
from lockfast.port import LONGEST_WAIT, Entry, Kind, Shape
from lockfast.primitives.lease import LeaseCore
from lockfast.primitives.timeout import checked_at_most, checked_timeout

L = TypeVar("L", bound=LeaseCore)


class Default(Enum):
    """The default of `timeout`, where None already means to wait for ever."""

    OF_LOCK = "as the lock says"


class LockCore(Generic[L]):
    """The shared part of sync and async locks. It stores nothing about holders (traps 4, 5)."""

    __slots__ = (
        "_at_least",
        "_at_most",
        "_lease_type",
        "_purpose",
        "_session",
        "_shape",
        "_timeout",
    )

    def __init__(  # noqa: PLR0913, PLR0917  # made by the facades alone
        self,
        session: Session,
        lease_type: type[L],
        shape: Shape,
        timeout: float | None,
        purpose: str,
        at_least: float = 0.0,
        at_most: float | None = None,
    ) -> None:
        """Create the description. Nothing is sent."""
        if not 0.0 <= at_least <= shape.ttl:
            raise ValueError(
                f"at_least must be 0 to the ttl of {shape.ttl:g} seconds, not {at_least!r}: a lock "
                "outlasts its process by its ttl at most. Raise the ttl, or lower at_least."
            )
        self._at_least = at_least
        self._at_most = checked_at_most(at_most, at_least)
        self._session = session
        self._lease_type = lease_type
        self._shape = shape
        self._timeout = checked_timeout(timeout)
        self._purpose = purpose

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._shape.name

    @property
    def ttl(self) -> float:
        """How long, in seconds, the lock stays taken after its holder crashes."""
        return self._shape.ttl

    def __repr__(self) -> str:
        """Show the name and the ttl."""
        return f"<{type(self).__name__} {self.name!r} ttl={self.ttl:g}>"

    def acquire(self, *, timeout: float | Default | None = Default.OF_LOCK) -> Any:  # noqa: ANN401  # each mode has its own type
        """Wait until the lock is granted, and return the lease. Keep it, and release it at the end.

        Args:
            timeout: Seconds to wait. None waits for ever. It defaults to the lock's own timeout.

        Returns:
            The lease of this acquisition. In asyncio, `await` the call, or use it in `async with`.

        Raises:
            NotAcquired: The lock was not granted in time.
            Deadlock: The wait could never end.
            KindMismatch: The name is in use for another kind of lock.
            GuaranteeMissing: The engine guarantees less than `connect(require=...)` asks for.
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.
            TypeError: The timeout is not a number, or `purpose` is not a str.
            ValueError: The timeout is negative.

        Example:
            ::

                lease = client.lock("report", ttl=10).acquire(timeout=5)
                try:
                    print("writing the report with token", lease.token)
                finally:
                    lease.release()
        """
        raise NotImplementedError

    def _acquire(
        self, *, timeout: float | Default | None = Default.OF_LOCK
    ) -> Coroutine[Any, Any, L]:
        """Acquire the lock and return the lease. See `Lock.acquire`."""
        wait = self._timeout if timeout is Default.OF_LOCK else checked_timeout(timeout)
        return acquire(
            self._session,
            self._shape,
            wait,
            self._purpose,
            self._lease_type,
            at_least=self._at_least,
            at_most=self._at_most,
        )

    def _acquire_in(self, block: object) -> Coroutine[Any, Any, L]:
        """Acquire the lock for a `with` block. If the block dies, the heart resigns the claim."""
        return acquire(
            self._session,
            self._shape,
            self._timeout,
            self._purpose,
            self._lease_type,
            block,
            self._at_least,
            self._at_most,
        )

    def _renamed(self, name: str) -> Self:
        """Return a lock with another name and the same options."""
        shape = self._shape
        template = shape.template if name == shape.name else shape.name
        other = Shape(name, shape.ttl, shape.kind, shape.capacity, shape.weight, template)
        return type(self)(
            self._session,
            self._lease_type,
            other,
            self._timeout,
            self._purpose,
            self._at_least,
            self._at_most,
        )

    async def _try_acquire(self) -> L | None:
        """Acquire the lock if it is free. It does not wait for a holder.

        Returns:
            The lease, or None if the lock is not free now.

        Raises:
            KindMismatch: The name is in use for another kind of lock.
            GuaranteeMissing: The engine guarantees less than `connect(require=...)` asks for.
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.

        Example:
            ::

                lease = client.lock("report", ttl=10).try_acquire()
                if lease is None:
                    print("another process writes the report")
                else:
                    with lease:
                        print("writing the report with token", lease.token)
        """
        try:
            return await self._acquire(timeout=0.0)
        except NotAcquired:
            return None

    async def _holders(self) -> list[Holder]:
        """Return the present holders of the lock, of all processes.

        Returns:
            The holders, in the order of the queue. An exclusive lock has at most one.

        Raises:
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.
        """
        return [each for each in await self._queue() if each.granted]

    async def _queue(self) -> list[Holder]:
        """Return the holders and waiters of the lock, of all processes.

        Returns:
            The holders and waiters, in the order of the queue. `granted` is True for a holder.

        Raises:
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.
        """
        return [Holder(entry) for entry in await look(self._session, self.name)]

    def release(self) -> NoReturn:
        """Raise `TypeError`, because a lease is released, not a lock.

        Raises:
            TypeError: Always. The message shows what to write instead.
        """
        raise TypeError(
            f"the lock {self.name!r} has no release(): each acquire() returns a lease. Keep it and "
            "release it (`lease = lock.acquire()`, then `lease.release()`), or use `with lock:`."
        )


class Holder:
    """A holder or waiter of a lock, as every client can see it.

    Attributes:
        name: The name of the lock.
        id: The unique id of the claim.
        ticket: The number of the claim in the lock's queue.
        granted: True for a holder, and False for a waiter.
        kind: The kind of lock.
        weight: How many permits of a semaphore it takes. A reader takes 1, and a writer takes all.
        capacity: The capacity that it asked for.
    """

    __slots__ = (
        "capacity",
        "granted",
        "holding",
        "id",
        "kind",
        "left",
        "name",
        "ticket",
        "value",
        "weight",
        "who",
    )

    def __init__(self, entry: Entry) -> None:
        """Take an entry of `Engine.inspect`."""
        self.name = entry.name
        self.id = entry.id
        self.ticket = entry.ticket
        self.granted = entry.granted
        self.kind = entry.kind
        self.weight = entry.weight
        self.capacity = entry.capacity
        self.left = entry.left
        """Seconds until the engine removes it, unless it is renewed."""
        self.who = payload.read(entry.payload)
        """The host, process and thread or task, as they have described themselves."""
        self.holding = payload.holding(entry.payload)
        """The names that its thread or task held when it asked, by the ids of the claims."""
        self.value = payload.value(entry.payload)
        """The value that a leader or candidate publishes."""

    @property
    def token(self) -> int | None:
        """The fencing token of an exclusive holder. None for waiters and shared holders."""
        return self.ticket if self.granted and self.exclusive else None

    @property
    def exclusive(self) -> bool:
        """Whether the claim is for a lock, or for the writer's side of a read/write lock."""
        return self.kind is not Kind.SEMAPHORE and self.weight == self.capacity

    @property
    def life(self) -> float:
        """Seconds that each renewal gives it, at most ten for a waiter. 0 if that is not known."""
        return self.who.ttl if self.granted else min(self.who.ttl, LONGEST_WAIT)

    def __repr__(self) -> str:
        """Show who holds or waits for which lock."""
        role = "holds" if self.granted else "waits for"
        return f"<{self.who} {role} {self.name!r}, ticket {self.ticket}, {self.left:.1f} s left>"


async def look(session: Session, name: str) -> list[Entry]:
    """Return the entries of a lock's queue, in the order of tickets."""
    session.enter()
    try:
        page = await session.engine.inspect(name, None, exact=True)
    except EngineUnavailable:  # the connection died while it was idle. Reading twice is harmless
        page = await session.engine.inspect(name, None, exact=True)
    return page.entries


def patience(on_busy: str, timeout: float | None) -> float | None:
    """Return the timeout for an `on_busy` option: without one, only "wait" waits."""
    if on_busy not in {"wait", "raise", "skip"}:
        raise ValueError(f"on_busy must be 'wait', 'raise' or 'skip', not {on_busy!r}")
    return 0.0 if timeout is None and on_busy != "wait" else timeout
