"""One row in PostgreSQL, behind each form of the guard."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar

import psycopg

from lockfast.guards.postgres import AsyncPostgresGuard, Columns, PostgresGuard
from lockfast.primitives.lease import LeaseCore

TABLES = """
CREATE TABLE register (
  id integer PRIMARY KEY, value text NOT NULL,
  fence_token bigint NOT NULL DEFAULT 0, fence_id text NOT NULL DEFAULT ''
) WITH (fillfactor = 20);
CREATE TABLE watched (id integer PRIMARY KEY, value text NOT NULL);
INSERT INTO register VALUES (1, '0 start');
INSERT INTO watched VALUES (1, '0 start');
"""
UPDATE = "UPDATE register SET value = %s WHERE id = 1"
SELECT = "SELECT value FROM register WHERE id = 1"


class Marked:
    """Guarded by a mark."""

    broken: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error,)

    def __init__(self, where: str) -> None:
        self._where = where
        self._connected: psycopg.Connection[Any] | None = None
        self._open: AbstractContextManager[psycopg.Cursor[Any]] | None = None

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection, or another if that was cut off."""
        if self._connected is None or self._connected.closed:
            self._connected = psycopg.connect(self._where, autocommit=True)
        return self._connected

    def seal(self, lease: LeaseCore) -> None:
        PostgresGuard(self.connection).seal(lease)

    def read(self, lease: LeaseCore) -> str:  # noqa: ARG002  # the story's
        row = self.connection.execute(SELECT).fetchone()
        assert row is not None
        return str(row[0])

    def write(self, lease: LeaseCore, value: str) -> None:
        with PostgresGuard(self.connection).transaction(lease) as cursor:
            cursor.execute(UPDATE, [value])

    def write_bare(self, lease: LeaseCore, value: str) -> None:  # noqa: ARG002  # the story's
        self.connection.execute(UPDATE, [value])

    def begin(self, lease: LeaseCore, value: str) -> None:
        """Write, and do not commit yet."""
        self._open = PostgresGuard(self.connection).transaction(lease)
        self._open.__enter__().execute(UPDATE, [value])

    def commit(self, lease: LeaseCore) -> None:  # noqa: ARG002  # the story's
        assert self._open is not None
        self._open.__exit__(None, None, None)

    def close(self) -> None:
        if self._connected is not None:
            self._connected.close()


class Columned(Marked):
    """Guarded by columns of its own row."""

    def seal(self, lease: LeaseCore) -> None:
        Columns().seal(self.connection.cursor(), lease, "register", {"id": 1})

    def write(self, lease: LeaseCore, value: str) -> None:
        cursor = self.connection.cursor()
        Columns().update(cursor, lease, "register", {"id": 1}, {"value": value})


class Triggered(Marked):
    """Guarded by a trigger: the program only says which lease it has."""

    def read(self, lease: LeaseCore) -> str:  # noqa: ARG002  # the story's
        row = self.connection.execute("SELECT value FROM watched WHERE id = 1").fetchone()
        assert row is not None
        return str(row[0])

    def write(self, lease: LeaseCore, value: str) -> None:
        with PostgresGuard(self.connection).transaction(lease) as cursor:
            cursor.execute("UPDATE watched SET value = %s WHERE id = 1", [value])


class AsyncMarked:
    """Guarded by a mark, for asyncio."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._connected: psycopg.AsyncConnection[Any] | None = None

    async def _connection(self) -> psycopg.AsyncConnection[Any]:
        if self._connected is None:
            self._connected = await psycopg.AsyncConnection.connect(self._where, autocommit=True)
        return self._connected

    async def seal(self, lease: LeaseCore) -> None:
        await AsyncPostgresGuard(await self._connection()).seal(lease)

    async def read(self, lease: LeaseCore) -> str:  # noqa: ARG002  # the story's
        cursor = await (await self._connection()).execute(SELECT)
        row = await cursor.fetchone()
        assert row is not None
        return str(row[0])

    async def write(self, lease: LeaseCore, value: str) -> None:
        guard = AsyncPostgresGuard(await self._connection())
        async with guard.transaction(lease) as cursor:
            await cursor.execute(UPDATE, [value])

    async def write_bare(self, lease: LeaseCore, value: str) -> None:  # noqa: ARG002  # the story's
        await (await self._connection()).execute(UPDATE, [value])

    async def close(self) -> None:
        if self._connected is not None:
            await self._connected.close()
