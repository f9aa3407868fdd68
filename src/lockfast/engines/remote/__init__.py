"""The engine for `lockfast://` and `lockfasts://`: a replica of the service, over WebSocket."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.engines.remote.aio import AioTransport
from lockfast.engines.remote.engine import RemoteEngine
from lockfast.engines.remote.identity import Identity
from lockfast.engines.remote.threads import ThreadTransport
from lockfast.engines.remote.url import address_of
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Return a function that makes an engine for a URL. The engine connects on first use."""
    address = address_of(target)

    def open_engine() -> Engine:
        identity = Identity()  # a new one in each fork
        if isinstance(runtime, Threads):
            return RemoteEngine(ThreadTransport(address, identity, runtime), substitute=False)

        def stand_in() -> Engine:
            transport = ThreadTransport(address, identity, Threads(runtime.now))
            return RemoteEngine(transport, substitute=True)

        engine = RemoteEngine(AioTransport(address, identity, runtime), substitute=False)
        engine.stand_in = stand_in
        return engine

    return open_engine
