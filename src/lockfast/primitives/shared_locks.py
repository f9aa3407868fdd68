"""The methods of a client that return locks with several holders: read/write lock, semaphore."""

from __future__ import annotations

from typing import Generic

from lockfast.claims.session import Session
from lockfast.port import SHARED, Kind, Shape, permits_of
from lockfast.primitives.rwlock import LockT, RWLock


class SharedLocks(Generic[LockT]):
    """The part of a client that makes the locks which several clients can hold at once."""

    _session: Session

    def _lock(
        self,
        shape: Shape,
        timeout: float | None,
        purpose: str,
        at_least: float,
        at_most: float | None,
    ) -> LockT:
        raise NotImplementedError

    def rwlock(
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_most: float | None = None,
    ) -> RWLock[LockT]:
        """Return a read/write lock: many readers, or one writer, hold it at a time.

        It has two methods, `read()` and `write()`, and each returns a lock. The engine grants
        requests in the order of arrival, so later readers do not overtake a waiting writer.

        Args:
            name: The name of the lock. It cannot be in use for another kind of lock.
            ttl: How long, in seconds, the lock stays taken after its holder crashes.
            timeout: How many seconds to wait for the lock. None waits for ever.
            purpose: A text that other clients can read while they wait.
            at_most: Seconds after which lockfast stops renewing a lease. See `lock`.

        Returns:
            The pair of locks. Nothing is sent before one of them is acquired.

        Raises:
            TypeError: An argument has the wrong type. `read()` and `write()` raise this.
            ValueError: The name or a number is out of range. `read()` and `write()` raise this.

        Example:
            ::

                catalogue = client.rwlock("catalogue", ttl=10)
                with catalogue.read() as lease:
                    print("reading with ticket", lease.ticket)
                with catalogue.write() as lease:
                    print("writing with token", lease.token)
        """
        return RWLock(
            name,
            lambda weight: self._lock(
                Shape(name, ttl, Kind.READ_WRITE, SHARED, weight), timeout, purpose, 0.0, at_most
            ),
        )

    def semaphore(  # noqa: PLR0913  # each is a word that users look for
        self,
        name: str,
        capacity: int,
        *,
        permits: int = 1,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_most: float | None = None,
    ) -> LockT:
        """Return a lock on some permits of a semaphore, which several clients can hold at once.

        The capacity may change while the semaphore is in use: the engine grants each request by the
        capacity that it passes, in the order of arrival. A lease of a semaphore has no fencing
        token, not even if it takes all permits, so guards do not accept it.

        Args:
            name: The name of the semaphore. It cannot be in use for another kind of lock.
            capacity: How many permits the semaphore has, from 1 to 2,147,483,646.
            permits: How many of them one lease takes.
            ttl: How long, in seconds, permits stay taken after their holder crashes.
            timeout: How many seconds to wait for the permits. None waits for ever.
            purpose: A text that other clients can read while they wait.
            at_most: Seconds after which lockfast stops renewing a lease. See `lock`.

        Returns:
            A lock with the usual methods. Nothing is sent before it is acquired.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: The name or a number is out of range, or `permits` is above the capacity.

        Example:
            Let three clients at a time use a service::

                with client.semaphore("mail-server", 3, ttl=10):
                    print("sending mail with one of three permits")
        """
        shape = Shape(name, ttl, Kind.SEMAPHORE, permits_of(capacity, permits), permits)
        return self._lock(shape, timeout, purpose, 0.0, at_most)
