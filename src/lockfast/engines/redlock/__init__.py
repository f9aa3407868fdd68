"""The Redlock engine: one lock on several independent Redis nodes, for threads and asyncio."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.engines.redis.url import weaknesses
from lockfast.engines.redlock.aio import AioTransport
from lockfast.engines.redlock.engine import RedlockEngine
from lockfast.engines.redlock.installation import PATIENCE, make_members
from lockfast.engines.redlock.threads import ThreadTransport
from lockfast.engines.redlock.url import read
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import Target, parse


def install(url: str, *, lost: bool = False) -> None:
    """Make the nodes of a URL members of one set. Blocking; safe to call again, and at once.

    It does nothing if a majority are members: a node that has lost its data joins by itself. A
    majority that has lost its data is never made anew silently: say `lost=True`, after the longest
    ttl in use is over.
    """
    nodes, login, _ = read(parse(url))
    transport = ThreadTransport(nodes, login, now)
    try:
        drive(make_members(transport, now() + PATIENCE, lost=lost))
    finally:
        drive(transport.close())


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Read a URL; the engine that comes out connects on first use."""
    nodes, login, base = read(target)
    weak = weaknesses(target, login.context())

    def open_engine() -> Engine:
        transport = (ThreadTransport if isinstance(runtime, Threads) else AioTransport)(
            nodes, login, runtime.now
        )
        return RedlockEngine(transport, runtime.now, runtime.sleep, base, weak)

    return open_engine
