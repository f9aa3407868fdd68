"""Decides who may see the dashboard, and who may break locks with it.

Without a `resolve` function, only a browser on this machine may look, and nobody may change
anything. The address of the client is not enough for that: a page of an attacker could give its own
domain the address 127.0.0.1 (DNS rebinding), and read what the browser then gets from this machine.
Then `Host` is that domain. A proxy on this machine would make all of its clients local, so what it
forwards is refused, if a header says that it was forwarded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import NamedTuple

from lockfast.loopback import is_loopback, without_port
from lockfast.web.request import Request

FORWARDED = ("forwarded", "x-forwarded", "x-real-ip", "x-client-ip", "true-client-ip", "via")


class User(NamedTuple):
    """A user of the dashboard, as the host application knows it."""

    name: str
    """Who it is. The record of a break has it."""
    may_break: bool | Callable[[str], bool] = False
    """Whether the user may break locks, or a function that returns it for the name of a lock."""

    def breaks(self, name: str) -> bool:
        """Return whether the user may break a lock.

        Args:
            name: The name of the lock.

        Returns:
            Whether that is so.
        """
        return self.may_break(name) if callable(self.may_break) else self.may_break


Resolve = Callable[[Request], User | Awaitable[User | None] | None]
VISITOR = User("")


async def user_of(request: Request, resolve: Resolve | None) -> User | None:
    """Return who has sent a request, or None if it is refused."""
    if resolve is None:
        return VISITOR if is_local(request) else None
    user = resolve(request)
    if isawaitable(user):
        user = await user
    if user is not None and not isinstance(user, User):
        raise TypeError(f"resolve must return a lockfast.web.User or None, not {user!r}")
    return user


def is_local(request: Request) -> bool:
    """Return whether a browser on this machine has sent a request, without a proxy."""
    hosts = [value for name, value in request.scope["headers"] if name.lower() == b"host"]
    return (
        is_loopback(request.address)
        and len(hosts) == 1
        and is_loopback(without_port(hosts[0].decode("latin-1")))
        and not any(name.startswith(FORWARDED) for name in request.headers)
    )
