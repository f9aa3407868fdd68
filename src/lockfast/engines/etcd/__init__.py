"""The etcd engine, for threads and asyncio, over gRPC."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.engines.etcd.aio import AioTransport
from lockfast.engines.etcd.engine import EtcdEngine
from lockfast.engines.etcd.threads import ThreadTransport
from lockfast.engines.etcd.url import login_of
from lockfast.engines.options import base_of
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Return a function that makes the engine for a URL. The engine connects on its first use."""
    login = login_of(target)
    base = base_of(target.options)

    def blocking() -> ThreadTransport:
        return ThreadTransport(login, Threads(runtime.now))

    def open_engine() -> Engine:
        transport = (
            ThreadTransport(login, runtime)
            if isinstance(runtime, Threads)
            else AioTransport(login, runtime)
        )
        return EtcdEngine(transport, base, blocking)

    return open_engine
