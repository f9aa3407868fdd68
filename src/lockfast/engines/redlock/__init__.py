"""The Redlock engine: one lock on several independent Redis nodes, for threads and asyncio."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.engines.hosts import exposed
from lockfast.engines.redis import OPTIONS, tls_context
from lockfast.engines.redis.transport import Address
from lockfast.engines.redlock.aio import AioTransport
from lockfast.engines.redlock.engine import RedlockEngine
from lockfast.engines.redlock.installation import PATIENCE, make_members
from lockfast.engines.redlock.threads import ThreadTransport
from lockfast.engines.redlock.transport import Introduction
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import Target, parse

KNOWN = tuple(option for option in OPTIONS if option != "sentinel_password")


def install(url: str, *, lost: bool = False) -> None:
    """Make the nodes of a URL members of one set. Blocking; safe to call again, and at once.

    It does nothing if a majority are members: a node that has lost its data joins by itself. A
    majority that has lost its data is never made anew silently: say `lost=True`, after the longest
    ttl in use is over.
    """
    nodes, login, _ = _read(parse(url))
    transport = ThreadTransport(nodes, login, now)
    try:
        drive(make_members(transport, now() + PATIENCE, lost=lost))
    finally:
        drive(transport.close())


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Read a URL; the engine that comes out connects on first use."""
    nodes, login, base = _read(target)
    weak = exposed(target, encrypted=login.tls is not None, remedy=f"use {target.secure}://")

    def open_engine() -> Engine:
        transport = (ThreadTransport if isinstance(runtime, Threads) else AioTransport)(
            nodes, login, runtime.now
        )
        return RedlockEngine(transport, runtime.now, runtime.sleep, base, weak)

    return open_engine


def _read(target: Target) -> tuple[list[Address], Introduction, int]:
    options = target.take(*KNOWN)
    base = int(options.get("token_base", "0"))
    if not 0 <= base < 2**52:
        raise ValueError(f"token_base is 0 to 2**52, not {base}")
    number = options.get("db", target.path.removeprefix("/")) or "0"
    if not number.isdigit():
        raise ValueError(f"not a database of {target.scheme}://: {number!r}")
    nodes = [Address(host, port or 6379) for host, port in target.hosts]
    if not nodes or len(set(nodes)) < len(nodes):
        raise ValueError("name each node once: redlock://h1,h2,h3,h4,h5")
    login = Introduction(
        username=target.username,
        secret=target.secret(),
        database=int(number),
        tls=tls_context(options) if target.scheme == "redlocks" else None,
    )
    return nodes, login, base
