"""The Redis and Valkey engine: standalone, Sentinel and Cluster, for threads and asyncio."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.engines.options import base_of
from lockfast.engines.redis.aio import AioTransport
from lockfast.engines.redis.engine import RedisEngine
from lockfast.engines.redis.threads import ThreadTransport
from lockfast.engines.redis.url import OPTIONS, login_of, topology_of, weaknesses
from lockfast.engines.same_url import stand_in
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Return a function that makes an engine for a URL. The engine connects on first use."""
    options = target.take(*OPTIONS)
    base = base_of(options)
    name, login = login_of(target, options)
    make_topology = topology_of(target, name)
    weak = weaknesses(target, login.context())

    def open_engine() -> Engine:
        transport = (ThreadTransport if isinstance(runtime, Threads) else AioTransport)(
            login, runtime.now
        )
        engine = RedisEngine(transport, make_topology(), runtime.now, base, weak)
        if isinstance(runtime, Aio):
            engine.stand_in = stand_in(opener, target, runtime)
        return engine

    return open_engine
