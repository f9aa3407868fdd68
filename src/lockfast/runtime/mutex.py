"""A re-entrant mutex. The thread that holds it can give it up while it waits for something.

A signal handler, or a finalizer that the garbage collector runs, can call lockfast between any two
bytecodes, also while its own thread is inside a critical section of lockfast. With a plain lock
that thread would wait for itself for ever. So every critical section must allow a second one to run
completely between two of its steps.
"""

from __future__ import annotations

import _thread
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Mutex(_thread.RLock):  # type: ignore[misc]  # final for typeshed, not for CPython
    """A re-entrant mutex. As a subclass of the C type, it makes `with` as cheap as a plain lock."""

    def inside(self) -> bool:
        """Return whether the calling thread is in the critical section already."""
        return self._is_owned()  # type: ignore[attr-defined, no-any-return]  # as Condition does

    async def aside(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work`, which blocks, without the mutex: others may have to enter before it ends.

        Only blocking callers may use this. A task would return to its event loop in the middle.
        """
        if not self.inside():
            return await work
        depth = self._release_save()  # type: ignore[attr-defined]  # as Condition does
        try:
            return await work
        finally:
            self._acquire_restore(depth)  # type: ignore[attr-defined]  # as Condition does
