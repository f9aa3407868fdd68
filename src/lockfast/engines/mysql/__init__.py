"""The MySQL and MariaDB engine, for threads and asyncio. Its procedures are installed once.

PyMySQL proves passwords. The rest of the protocol is here, because a deadline must hold for threads
and asyncio, and none of the drivers keeps one: docs/explanation/mysql-driver.md.
"""

from __future__ import annotations

from collections.abc import Callable

from lockfast.engines.mysql import procedures
from lockfast.engines.mysql.aio import AioTransport
from lockfast.engines.mysql.engine import MysqlEngine
from lockfast.engines.mysql.installation import install
from lockfast.engines.mysql.threads import ThreadTransport
from lockfast.engines.mysql.url import Address
from lockfast.engines.options import base_of
from lockfast.engines.same_url import stand_in
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target

__all__ = ["install", "schema"]

AT_ONCE = 10  # connections for callers; other callers wait, as a server has 151 for all clients


def schema(*, mariadb: bool) -> str:
    """Return the SQL that `install` runs, for projects that manage their migrations themselves.

    Args:
        mariadb: Whether the server is MariaDB, not MySQL.

    Returns:
        The statements, as one text for the server's own command-line client.
    """
    return procedures.text(mariadb=mariadb)


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Return a function that opens the engine for a URL. The engine connects on first use."""
    address = Address.of(target)
    base = base_of(target.options)

    def open_engine() -> Engine:
        kind = ThreadTransport if isinstance(runtime, Threads) else AioTransport
        transport = kind(address, runtime.bell(), runtime.turns(AT_ONCE), runtime.now)
        engine = MysqlEngine(transport, runtime.now, base)
        if isinstance(runtime, Aio):
            engine.stand_in = stand_in(opener, target, runtime)
        return engine

    return open_engine
