"""A read/write lock: many readers or one writer, in the order in which they came."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from lockfast.port import SHARED

K = TypeVar("K")
SAID = "a read/write lock is two locks: use .read() or .write() of it"


class RWLock(Generic[K]):
    """Two locks on one resource. A writer that waits is not overtaken by later readers."""

    __slots__ = ("_make", "name")

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

    if not TYPE_CHECKING:  # a type checker finds these mistakes by itself

        def __getattr__(self, name: str) -> NoReturn:
            """Say which two have the methods of a lock."""
            raise AttributeError(f"{SAID}: it has no {name!r} itself", name=name, obj=self)

        def __enter__(self) -> NoReturn:
            """Say what to enter instead."""
            raise TypeError(SAID)

        __aenter__ = __enter__

        def __exit__(self, *_: object) -> None:
            """Never: nothing is entered."""

        __aexit__ = __exit__

    def __repr__(self) -> str:
        """Show the name."""
        return f"<RWLock {self.name!r}>"
