"""The Redlock engine: one lock on several independent Redis nodes, for threads and asyncio."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.engines.redis.url import weaknesses
from lockfast.engines.redlock.aio import AioTransport
from lockfast.engines.redlock.engine import RedlockEngine
from lockfast.engines.redlock.installation import PATIENCE, make_members
from lockfast.engines.redlock.threads import ThreadTransport
from lockfast.engines.redlock.url import read
from lockfast.engines.same_url import stand_in
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import Target, parse


def install(url: str, *, lost: bool = False) -> None:
    """Make the nodes of a URL members of one set. Call this once, when the nodes are new.

    It blocks, and all nodes must be up. You can call it again, also from several processes at once.
    It does nothing if a majority are members, since a node that has lost its data joins by itself.
    Then the other nodes may be down.
    Before you pass `lost`, wait for the longest ttl in use: older leases may still be held.

    Args:
        url: The nodes, such as `redlock://h1,h2,h3,h4,h5`.
        lost: Install a set again whose majority has lost its data.

    Raises:
        EngineUnavailable: A node cannot be reached, and no majority are members.
        EngineRefused: The login or a command is refused, or members are a minority without `lost`.
        ValueError: The URL is not one of Redlock, or has an option that does not exist.
    """
    nodes, login, _ = read(parse(url))
    transport = ThreadTransport(nodes, login, now)
    try:
        drive(make_members(transport, now() + PATIENCE, lost=lost))
    finally:
        drive(transport.close())


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Return a function that makes an engine for a URL. The engine connects on first use."""
    nodes, login, base = read(target)
    weak = weaknesses(target, login.context())

    def open_engine() -> Engine:
        transport = (ThreadTransport if isinstance(runtime, Threads) else AioTransport)(
            nodes, login, runtime.now
        )
        engine = RedlockEngine(transport, runtime.now, runtime.sleep, base, weak)
        if isinstance(runtime, Aio):
            engine.stand_in = stand_in(opener, target, runtime)
        return engine

    return open_engine
