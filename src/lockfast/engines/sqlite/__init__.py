"""The SQLite engine, for threads and asyncio, over Python's own sqlite3: locks on one host."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.engines.options import base_of
from lockfast.engines.same_url import stand_in
from lockfast.engines.sqlite.aio import AioTransport
from lockfast.engines.sqlite.claims import Claims
from lockfast.engines.sqlite.database_file import DatabaseFile
from lockfast.engines.sqlite.engine import SqliteEngine
from lockfast.engines.sqlite.listener import Listener, notify
from lockfast.engines.sqlite.store import Store
from lockfast.engines.sqlite.threads import ThreadTransport
from lockfast.engines.sqlite.url import path_of
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Return a function that opens the engine for a URL. The engine opens the file on first use."""
    file = DatabaseFile(path_of(target))
    base = base_of(target.take("token_base"))

    def open_engine() -> Engine:
        kind = ThreadTransport if isinstance(runtime, Threads) else AioTransport
        store = Store(file, runtime.now, notify)
        transport = kind(store, Listener(runtime.bell(), runtime.now), runtime.now)
        engine = SqliteEngine(transport, Claims(store.clock, base), runtime.now)
        if isinstance(runtime, Aio):
            engine.stand_in = stand_in(opener, target, runtime)
        return engine

    return open_engine
