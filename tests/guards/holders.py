"""Holders for tests of guards: two that both believe, readers, permits, and one face per mode."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import lockfast
from lockfast.blocking.client import Lease, Lock
from lockfast.guards.mark import Shown
from lockfast.port import SHARED, Kind, Shape
from tests.traps.modes import Loop


@contextmanager
def two_holders(name: str) -> Iterator[tuple[Lease, Lease]]:
    """Give a stale lease and a fresh one of the same name, both HELD as far as they know.

    That is what a failover leaves behind. Here it is two memories: both mint by the same clock, so
    the second has the higher token.
    """
    old, new = (f"memory://{secrets.token_hex(8)}" for _ in range(2))
    with lockfast.connect(old) as before, lockfast.connect(new) as after:
        stale, fresh = before.lock(name).acquire(), after.lock(name).acquire()
        assert fresh.token > stale.token
        yield stale, fresh


def reader(client: lockfast.Client, name: str) -> Lease:
    """Acquire as one of many readers."""
    shape = Shape(name, 30.0, Kind.READ_WRITE, SHARED)
    return Lock(client._session, Lease, shape, None, "").acquire()


def permit(client: lockfast.Client, name: str) -> Lease:
    """Acquire one of three permits."""
    return Lock(client._session, Lease, Shape(name, 30.0, Kind.SEMAPHORE, 3), None, "").acquire()


def writer(token: int, ident: str = "a" * 32, name: str = "x") -> Shown:
    """Show a holder's token."""
    return Shown(name, token, ident, token, shared=False)


def readers(token: int, floor: int, ident: str = "b" * 32, name: str = "x") -> Shown:
    """Show a reader's ticket."""
    return Shown(name, token, ident, floor, shared=True)


class Driven:
    """An asyncio guard, used as a blocking one is."""

    def __init__(self, loop: Loop, guard: object) -> None:
        """Take it with the loop in which it lives."""
        self._loop = loop
        self._guard = guard

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Run a method of it to its end."""
        method = getattr(self._guard, name)
        return lambda *args, **kwargs: self._loop.run(method(*args, **kwargs))
