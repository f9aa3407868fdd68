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


def schema() -> str:
    """Give the SQL that `install` runs, for those who keep their migrations themselves."""
    return (files(__name__) / "schema.sql").read_text(encoding="utf-8")


def install(conninfo: str) -> None:
    """Install the schema, or bring it up to date. Blocking; safe to call again, and at once."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        # Bytes: this text is ours, and has several statements, which are one transaction.
        connection.execute(schema().encode())
