"""One `with lock:` statement: an object that Python keeps exactly as long as the statement runs.

`with` looks `__exit__` up once, before it calls `__enter__`, and keeps what it found to the end of
the statement; ExitStack does the same on the class. So what is found there is made anew each time,
and carries the lease. Nothing of it is kept on the lock, the thread or the task: whose lease a
block releases is never in question (traps 4, 5). And since Ctrl-C may strike before the first line
of any `__exit__`, it is good that the block then dies: the heart resigns a claim whose block is
dead.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any, Generic, TypeVar

L = TypeVar("L")
R = TypeVar("R")

_asked: dict[int, weakref.ref[Block[Any, Any]]] = {}
"""By thread, the block that was asked for last: between that and `__enter__` nothing else runs."""


class Block(Generic[L, R]):
    """The `__exit__` of one `with lock:` statement; it holds that statement's lease."""

    __slots__ = ("__weakref__", "_leave", "keep", "lease")

    def __init__(self, leave: Callable[[L, Any, Any, Any], R]) -> None:
        """Begin without a lease."""
        self._leave = leave
        self.lease: L | None = None
        self.keep: object = None
        """What lives as long as this statement does, besides."""

    def __call__(self, *args: Any) -> R:  # noqa: ANN401  # three of them, or four
        """Leave the statement. ExitStack puts the lock in front of the three."""
        if self.lease is None:
            raise TypeError(
                "a lock is entered by `with` or an ExitStack; otherwise use acquire() and release()"
            )
        kind, error, trace = args[-3:]
        return self._leave(self.lease, kind, error, trace)


class Leaving(Generic[L, R]):
    """A lock's `__exit__` or `__aexit__`."""

    def __init__(self, leave: Callable[[L, Any, Any, Any], R]) -> None:
        """Take what a lease does at the end of a block."""
        self._leave = leave

    def __get__(self, lock: object, kind: type) -> Block[L, R]:
        """Begin a block."""
        block = Block(self._leave)
        _asked[get_ident()] = weakref.ref(block)
        return block


def beginning() -> Block[Any, Any]:
    """Return the block of the statement that calls `__enter__` now."""
    asked = _asked.pop(get_ident(), None)
    block = asked() if asked is not None else None
    if block is None:
        raise TypeError(
            "a lock is entered by `with` or an ExitStack; otherwise use acquire() and release()"
        )
    return block
