"""A read/write lock: many readers or one writer, in the order in which they came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from lockfast.port import SHARED
from lockfast.primitives.not_a_lock import NotALock

K = TypeVar("K")


class RWLock(NotALock, Generic[K]):
    """Two locks on one resource. A writer that waits is not overtaken by later readers."""

    __slots__ = ("_make", "name")
    _said = "a read/write lock is two locks: use .read() or .write() of it"

    def __init__(self, name: str, make: Callable[[int], K]) -> None:
        """`make` describes a lock of so much weight."""
        self.name = name
        self._make = make

    def read(self) -> K:
        """Describe the lock of a reader. Its lease has a `fence_floor` and no token."""
        return self._make(1)

    def write(self) -> K:
        """Describe the lock of a writer, which is alone. Its lease has a token."""
        return self._make(SHARED)

    def __repr__(self) -> str:
        """Show the name."""
        return f"<RWLock {self.name!r}>"
