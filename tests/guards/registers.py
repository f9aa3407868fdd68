"""The registers that the stories and the hammer write to: one row in PostgreSQL, several guards."""

from __future__ import annotations

from typing import Any, ClassVar

import psycopg

from lockfast.client import Lease
from lockfast.guards.postgres import PostgresGuard

TABLE = """
CREATE TABLE IF NOT EXISTS register (id integer PRIMARY KEY, value text NOT NULL);
INSERT INTO register VALUES (1, '0 start') ON CONFLICT DO NOTHING;
"""


class Marked:
    """Guarded by a mark, through psycopg."""

    broken: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error,)

    def __init__(self, where: str) -> None:
        self._where = where
        self._connected: psycopg.Connection[Any] | None = None

    @property
    def connection(self) -> psycopg.Connection[Any]:
        if self._connected is None or self._connected.closed:
            self._connected = psycopg.connect(self._where, autocommit=True)
        return self._connected

    def seal(self, lease: Lease) -> None:
        PostgresGuard(self.connection).seal(lease)

    def read(self, lease: Lease) -> str:  # noqa: ARG002  # the story's
        row = self.connection.execute("SELECT value FROM register WHERE id = 1").fetchone()
        assert row is not None
        return str(row[0])

    def write(self, lease: Lease, value: str) -> None:
        with PostgresGuard(self.connection).transaction(lease) as cursor:
            cursor.execute("UPDATE register SET value = %s WHERE id = 1", [value])

    def write_bare(self, lease: Lease, value: str) -> None:  # noqa: ARG002  # the story's
        self.connection.execute("UPDATE register SET value = %s WHERE id = 1", [value])

    def close(self) -> None:
        if self._connected is not None:
            self._connected.close()
