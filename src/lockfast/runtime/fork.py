"""After a fork: the child's clients begin anew. Their parent's leases are foreign to them."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that must begin anew in a child process."""

    def after_fork(self) -> None:
        """Drop what belongs to the parent, without telling anybody."""


_watched: weakref.WeakSet[Forkable] = weakref.WeakSet()


def watch(thing: Forkable) -> None:
    """Call `after_fork` in every child, for as long as somebody has `thing`."""
    _watched.add(thing)


def _in_child() -> None:
    for thing in list(_watched):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
