"""The PostgreSQL guard: marks in a table or in columns, and triggers. `install` it once."""

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
"""Sets a lock timeout, unless there is one. An ALTER that waits for a long transaction blocks every
statement on the table that comes after it."""


def schema() -> str:
    """Return the SQL that `install` runs, for projects that manage their migrations themselves.

    Returns:
        The statements, as one text.
    """
    return (files(__name__) / "schema.sql").read_text(encoding="utf-8")


def install(conninfo: str, *, role: str | None = None) -> None:
    """Install the guard's schema, or update it. It blocks, and is safe to repeat and to run twice
    at the same time.

    Args:
        conninfo: The database, with a user that may create a schema in it.
        role: A role that may write under the guard from then on. It cannot lower a mark.

    Raises:
        psycopg.Error: The database cannot be reached, or the user lacks a right.

    Example:
        ::

            install("postgresql://localhost/app")
    """
    with psycopg.connect(conninfo, autocommit=True) as connection:
        # As bytes, which psycopg's types allow besides literal strings, since this text is ours.
        # Its statements are sent in one message, so they are one transaction.
        connection.execute(f"{PATIENCE}; {schema()}".encode())
        if role is not None:
            connection.execute("SELECT lockfast_guard.grant_v1(%s)", [role])
