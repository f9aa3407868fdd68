"""Blocks: an object for each `with lock:` statement, which lives exactly as long as the statement.

A `with` statement looks `__exit__` up once, before it calls `__enter__`, and keeps the result until
it ends. ExitStack does the same on the class. The descriptor `Leaving` returns a new `Block` each
time, and the block carries the lease. Nothing is stored on the lock, the thread or the task, so a
block can only release its own lease (traps 4, 5). Ctrl-C may strike before the first line of any
`__exit__`, and then no code of ours runs. But the block dies with its statement, and the heart
resigns a claim whose block is dead.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any, Generic, TypeVar

L = TypeVar("L")
R = TypeVar("R")

_asked: dict[int, weakref.ref[Block[Any, Any]]] = {}
"""The last block of each thread. Python calls `__enter__` right after it has looked `__exit__` up,
so this is the block of the statement that calls `__enter__`."""


class Block(Generic[L, R]):
    """The `__exit__` of one `with lock:` statement; it holds that statement's lease."""

    __slots__ = ("__weakref__", "_leave", "keep", "lease")

    def __init__(self, leave: Callable[[L, Any, Any, Any], R]) -> None:
        """Create a block without a lease. `__enter__` of the lock sets the lease."""
        self._leave = leave
        self.lease: L | None = None
        self.keep: object = None
        """An object to keep alive as long as the statement: the hold of a re-entrant lock."""

    def __call__(self, *args: Any) -> R:  # noqa: ANN401  # three of them, or four
        """Leave the statement. ExitStack passes the lock in front of the three arguments."""
        if self.lease is None:
            raise TypeError(
                "a lock is entered by `with` or an ExitStack; otherwise use acquire() and release()"
            )
        kind, error, trace = args[-3:]
        return self._leave(self.lease, kind, error, trace)


class Leaving(Generic[L, R]):
    """The `__exit__` or `__aexit__` of a lock: a descriptor that returns a new block each time."""

    def __init__(self, leave: Callable[[L, Any, Any, Any], R]) -> None:
        """Take the `__exit__` or `__aexit__` of the lease, to be called at the end of the block."""
        self._leave = leave

    def __get__(self, lock: object, kind: type) -> Block[L, R]:
        """Return the block of a new `with` statement."""
        block = Block(self._leave)
        _asked[get_ident()] = weakref.ref(block)
        return block


def beginning() -> Block[Any, Any]:
    """Return the block of the statement that calls `__enter__` now. Raise if there is none."""
    asked = _asked.pop(get_ident(), None)
    block = asked() if asked is not None else None
    if block is None:
        raise TypeError(
            "a lock is entered by `with` or an ExitStack; otherwise use acquire() and release()"
        )
    return block
