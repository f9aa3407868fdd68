"""The PostgreSQL engine, for threads and asyncio, over psycopg 3. Its schema is installed once."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.resources import files

from lockfast.engines import missing

try:
    import psycopg
except ImportError as error:  # for who imports `install`, before `connect` has said it
    raise missing(error, "postgresql", "postgres") from error

from lockfast.engines.options import base_of
from lockfast.engines.postgres.aio import AioTransport
from lockfast.engines.postgres.connection import failed, unconnected
from lockfast.engines.postgres.engine import PostgresEngine
from lockfast.engines.postgres.threads import ThreadTransport
from lockfast.engines.postgres.url import LIBPQ, Address
from lockfast.engines.same_url import stand_in
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target, parse

OURS = ("listen", "token_base")
REACHING = 10  # seconds for `install` to connect to each host
PATIENCE = """SELECT pg_catalog.set_config('lock_timeout', '1s', true)
WHERE pg_catalog.current_setting('lock_timeout') OPERATOR(pg_catalog.=) '0'"""
"""Limits the wait for a lock, if nothing else does. An ALTER that waits for a long transaction
blocks all later users of its table."""
TRIES, PAUSE = 8, 0.5  # how often `install` tries to get its locks, and the seconds between
OWNER = (
    "install with a role that may create a schema in this database, such as its owner, or with "
    "the owner of the schema lockfast, if there is one"
)
AT_ONCE = 10  # connections for callers; other callers wait, as a server has 100 for all clients


def schema() -> str:
    """Return the SQL that `install` runs, for projects that manage their migrations themselves.

    Returns:
        The statements, as one text.
    """
    return (files(__name__) / "schema.sql").read_text(encoding="utf-8")


def install(url: str, *, role: str | None = None) -> None:
    """Install or upgrade the schema. Blocking. Safe to run again, and in several processes at once.

    Clients may hold locks and wait meanwhile. An upgrade that changes a table keeps them waiting
    for a moment.

    Args:
        url: The URL of the database, with a role that may create a schema in it.
        role: A role that gets the right to take and release locks, and no other right.

    Raises:
        EngineUnavailable: The database cannot be reached, or another transaction is in the way.
        EngineRefused: The password is wrong, a right or the role is missing, or a later version of
            lockfast has installed the schema.
        ValueError: The URL is not one of PostgreSQL, or has an option that does not exist.
    """
    target = parse(url)
    target.take(*LIBPQ, *OURS)
    address = Address.of(target)
    try:
        with psycopg.connect(
            address.conninfo, connect_timeout=REACHING, autocommit=True
        ) as connection:
            _apply(connection)
            if role is not None:
                connection.execute("SELECT lockfast.grant_v2(%s)", [role])
    except psycopg.Error as error:
        raise _failed(error, str(address)) from error


def _apply(connection: psycopg.Connection) -> None:
    """Run the schema's SQL. Wait for its locks in several short tries, and let clients work between
    them.
    """
    for left in reversed(range(TRIES)):
        try:
            # The text is our own, so it is passed as bytes. Its statements are one transaction.
            connection.execute(f"{PATIENCE}; {schema()}".encode())
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if not left:
                raise
            time.sleep(PAUSE)
        else:
            return


def _failed(error: psycopg.Error, where: str) -> EngineError:
    parts = (error.diag.message_primary, error.diag.message_hint)
    said = " ".join(part for part in parts if part) or " ".join(str(error).split())
    if error.sqlstate is not None:
        return failed(error.sqlstate, said, where, OWNER)
    if error.pgconn is None:  # the error is not from connecting
        return EngineUnavailable(f"PostgreSQL at {where}: {said}", sent=True)
    return unconnected(said, where)


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Return a function that opens the engine for a URL. The engine connects on first use."""
    options = target.take(*LIBPQ, *OURS)
    base = base_of(options)
    address = Address.of(target)
    ear = _ear(options.get("listen"))

    def open_engine() -> Engine:
        kind = ThreadTransport if isinstance(runtime, Threads) else AioTransport
        transport = kind(address, ear, runtime.bell(), runtime.turns(AT_ONCE), runtime.now)
        engine = PostgresEngine(transport, runtime.now, base)
        if isinstance(runtime, Aio):
            engine.stand_in = stand_in(opener, target, runtime)
        return engine

    return open_engine


def _ear(url: str | None) -> Address | None:
    if url is None:
        return None
    target = parse(url)
    target.take(*LIBPQ)
    return Address.of(target)
