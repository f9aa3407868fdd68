"""Fork handling: in a forked child, clients start again and the parent's leases are foreign."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """An object, such as a client, that must start again in a forked child."""

    def after_fork(self) -> None:
        """Drop what belongs to the parent, without sending anything to a server."""


_watched: weakref.WeakSet[Forkable] = weakref.WeakSet()


def watch(thing: Forkable) -> None:
    """Call `thing.after_fork` in every forked child, as long as `thing` is referenced elsewhere."""
    _watched.add(thing)


def _in_child() -> None:
    for thing in list(_watched):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
