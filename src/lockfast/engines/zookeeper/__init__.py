"""The ZooKeeper engine, for threads and asyncio, over kazoo."""

from __future__ import annotations

import time
from collections.abc import Callable

from lockfast.engines.options import base_of
from lockfast.engines.zookeeper.aio import AioTransport
from lockfast.engines.zookeeper.engine import ZooKeeperEngine
from lockfast.engines.zookeeper.threads import ThreadTransport
from lockfast.engines.zookeeper.url import Address
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target

YEAR = 366 * 86_400.0  # seconds


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Return a function that opens the engine for a URL. The engine connects on first use."""
    address = Address.of(target)
    base = base_of(target.options)
    if base > (time.time() + YEAR) * 1e6:  # once stored, it shuts out lower bases
        raise ValueError(
            f"token_base is the microseconds since 1970 at the move, and {base} is more than a "
            "year ahead"
        )

    def open_engine() -> Engine:
        transport = (ThreadTransport if isinstance(runtime, Threads) else AioTransport)(runtime.now)
        return ZooKeeperEngine(address, transport, runtime.bell(), base)

    return open_engine
