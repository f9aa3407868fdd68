"""The guard of a PostgreSQL database: marks, columns and triggers. Its schema is installed once."""

from __future__ import annotations

from importlib.resources import files

import psycopg

from lockfast.guards.postgres.columns import AsyncColumns, Columns
from lockfast.guards.postgres.guard import AsyncPostgresGuard, PostgresGuard

__all__ = [
    "AsyncColumns",
    "AsyncPostgresGuard",
    "Columns",
    "PostgresGuard",
    "install",
    "schema",
]

PATIENCE = """SELECT pg_catalog.set_config('lock_timeout', '10s', true)
WHERE pg_catalog.current_setting('lock_timeout') OPERATOR(pg_catalog.=) '0'"""
"""An ALTER that waits for a long transaction holds up everybody who comes after it."""


def schema() -> str:
    """Return the SQL that `install` runs, for those who keep their migrations themselves."""
    return (files(__name__) / "schema.sql").read_text(encoding="utf-8")


def install(conninfo: str, *, role: str | None = None) -> None:
    """Install the schema, or bring it up to date. Blocking; safe to call again, and at once.

    Args:
        conninfo: The database, as a role that may create a schema in it.
        role: A role that may write under the guard from then on. It cannot lower a mark.

    """
    with psycopg.connect(conninfo, autocommit=True) as connection:
        # Bytes: this text is ours, and has several statements, which are one transaction.
        connection.execute(f"{PATIENCE}; {schema()}".encode())
        if role is not None:
            connection.execute("SELECT lockfast_guard.grant_v1(%s)", [role])
