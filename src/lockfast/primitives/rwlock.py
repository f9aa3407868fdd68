"""Read/write locks: many readers or one writer, granted in the order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from lockfast.port import SHARED
from lockfast.primitives.not_a_lock import NotALock

LockT = TypeVar("LockT")


class RWLock(NotALock, Generic[LockT]):
    """A read lock and a write lock of one name: many readers, or one writer, hold it at a time.

    Requests are granted in the order of arrival, so later readers do not overtake a waiting writer.
    """

    __slots__ = ("_make", "name")
    _said = "a read/write lock is a pair of locks: use its .read() or .write()"

    def __init__(self, name: str, make: Callable[[int], LockT]) -> None:
        """Take the name, and a function that returns a lock of a given weight."""
        self.name = name
        self._make = make

    def read(self) -> LockT:
        """Return the lock for readers, which many clients can hold at once.

        Returns:
            A lock. Its leases have a `fence_floor`, but no token.

        Raises:
            TypeError: An argument of `rwlock` has the wrong type.
            ValueError: The name or a number is out of range.

        Example:
            ::

                with client.rwlock("catalogue", ttl=10).read() as lease:
                    print("reading with ticket", lease.ticket)
        """
        return self._make(1)

    def write(self) -> LockT:
        """Return the exclusive lock for writers.

        Returns:
            A lock. Its leases have a fencing token.

        Raises:
            TypeError: An argument of `rwlock` has the wrong type.
            ValueError: The name or a number is out of range.

        Example:
            ::

                with client.rwlock("catalogue", ttl=10).write() as lease:
                    print("writing with token", lease.token)
        """
        return self._make(SHARED)

    def __repr__(self) -> str:
        """Show the name."""
        return f"<RWLock {self.name!r}>"
