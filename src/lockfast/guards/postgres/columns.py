"""The column form of the PostgreSQL guard: the mark is in two columns of the guarded row itself.

It needs no schema of lockfast. It guards only that row, and only statements that use it. If a row
is deleted and inserted again, its mark is lost, and a stale holder can write to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from psycopg import AsyncCursor, Cursor
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Composable, Composed, Identifier, Placeholder

from lockfast.guards.columns import only, parameters
from lockfast.guards.mark import Holder, refused
from lockfast.runtime.drive import drive

# Operators and types are qualified with pg_catalog, because the caller's search_path is not known:
# a user who may CREATE in a schema on it could otherwise put an `=` of his own there.
ADMITTED = SQL(
    "(%(lockfast_token)s::pg_catalog.int8 OPERATOR(pg_catalog.>) {token} "
    "OR (%(lockfast_token)s::pg_catalog.int8 OPERATOR(pg_catalog.=) {token} "
    "AND (%(lockfast_shared)s OR {id} OPERATOR(pg_catalog.=) %(lockfast_id)s::pg_catalog.text)))"
)
RAISED = SQL(
    "{id} = CASE WHEN NOT %(lockfast_shared)s THEN %(lockfast_id)s "
    "WHEN %(lockfast_floor)s::pg_catalog.int8 OPERATOR(pg_catalog.>) {token} THEN '' "
    "ELSE {id} END, "
    "{token} = greatest({token}, %(lockfast_floor)s)"
)


class Line(Protocol):
    """A cursor, for threads or for asyncio."""

    async def rows(self, query: Composed, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows."""


class ColumnsCore:
    """The shared part of `Columns` and `AsyncColumns`: the names of the columns, and the SQL."""

    def __init__(self, token: str = "fence_token", id: str = "fence_id") -> None:  # noqa: A002, S107  # the columns' names
        """Take the names of the two columns, a bigint and a text, both NOT NULL."""
        names = {"token": Identifier(token), "id": Identifier(id)}
        self._token = names["token"]
        self._new = SQL(
            "ADD COLUMN IF NOT EXISTS {token} bigint NOT NULL DEFAULT 0, "
            "ADD COLUMN IF NOT EXISTS {id} text NOT NULL DEFAULT ''"
        ).format(**names)
        self.where: Composed = ADMITTED.format(**names)
        """A condition for the WHERE of your own UPDATE. If it changes no row, the lease is stale,
        or the row does not exist."""
        self.set: Composed = RAISED.format(**names)
        """Assignments for the SET of that UPDATE, which raise the mark."""

    def add_to(self, table: str) -> Composed:
        """Return the ALTER TABLE that adds the columns to a table.

        Args:
            table: The name of the table, perhaps with its schema and a dot before it.

        Returns:
            The statement, for `cursor.execute`.
        """
        return SQL("ALTER TABLE {} {}").format(Identifier(*table.split(".")), self._new)

    @staticmethod
    def shown(lease: Holder) -> dict[str, object]:
        """Return the query parameters for `where` and `set`.

        Args:
            lease: The lease, or what `parse` of the HTTP guard returned.

        Returns:
            Parameters to merge into those of your own statement.

        Raises:
            TypeError: The lease is a permit of a semaphore.
        """
        return parameters(lease)

    async def _write(
        self,
        line: Line,
        lease: Holder,
        table: str,
        key: Mapping[str, object],
        values: Mapping[str, object],
    ) -> None:
        name = Identifier(*table.split("."))
        given = {f"key_{n}": value for n, value in enumerate(key.values())}
        given |= {f"new_{n}": value for n, value in enumerate(values.values())}
        which = SQL(" AND ").join(
            SQL("{} OPERATOR(pg_catalog.=) {}").format(Identifier(column), Placeholder(f"key_{n}"))
            for n, column in enumerate(key)
        )
        new = [
            SQL("{} = {}").format(
                Identifier(column),
                value if isinstance(value, Composable) else Placeholder(f"new_{n}"),
            )
            for n, (column, value) in enumerate(values.items())
        ]
        # The key must match exactly one row. Of several, some could be changed and others refused.
        update = SQL(
            "UPDATE {0} SET {1} WHERE {2} AND {3} AND "
            "(SELECT pg_catalog.count(*) FROM {0} WHERE {2}) OPERATOR(pg_catalog.=) 1 "
            "RETURNING true"
        ).format(name, SQL(", ").join([*new, self.set]), which, self.where)
        if await line.rows(update, given | parameters(lease)):
            return
        look = SQL("SELECT {} FROM {} WHERE {}").format(self._token, name, which)
        (token,) = only(await line.rows(look, given), table, key)
        raise refused(lease, token)


class ThreadLine:
    """A cursor that blocks."""

    def __init__(self, cursor: Cursor[Any]) -> None:
        """Take a new cursor, since the caller's own may still have rows to fetch."""
        self._cursor = cursor.connection.cursor(row_factory=tuple_row)

    async def rows(self, query: Composed, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows."""
        return self._cursor.execute(query, values).fetchall()


class AioLine:
    """A cursor that suspends."""

    def __init__(self, cursor: AsyncCursor[Any]) -> None:
        """Take a new cursor, since the caller's own may still have rows to fetch."""
        self._cursor = cursor.connection.cursor(row_factory=tuple_row)

    async def rows(self, query: Composed, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows."""
        return await (await self._cursor.execute(query, values)).fetchall()


class Columns(ColumnsCore):
    """Rejects stale writes to rows that have a mark in two columns of their own.

    Args:
        token: The name of the column with the token, a bigint that is NOT NULL.
        id: The name of the column with the claim's id, a text that is NOT NULL.

    Example:
        ::

            columns = Columns()
            with psycopg.connect("postgresql://localhost/app") as connection:
                cursor = connection.cursor()
                cursor.execute(columns.add_to("invoices"))
                with client.lock("invoice:42", ttl=10) as lease:
                    columns.update(cursor, lease, "invoices", {"id": 42}, {"paid": True})
                    connection.commit()
    """

    def update(
        self,
        cursor: Cursor[Any],
        lease: Holder,
        table: str,
        key: Mapping[str, object],
        values: Mapping[str, object],
    ) -> None:
        """Update one row, in the transaction of `cursor`, unless the lease is stale.

        Args:
            cursor: A cursor of psycopg, in the transaction that is to change the row.
            lease: The lease, or what `parse` of the HTTP guard returned.
            table: The name of the table, perhaps with its schema and a dot before it.
            key: The columns and values that identify the row.
            values: The new values by column. A value may also be an expression of `psycopg.sql`.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST.
            LookupError: The key matches no row, or several. Nothing is changed.
            TypeError: The lease is a permit of a semaphore.
            psycopg.Error: The database has failed.
        """
        drive(self._write(ThreadLine(cursor), lease, table, key, values))

    def seal(
        self, cursor: Cursor[Any], lease: Holder, table: str, key: Mapping[str, object]
    ) -> None:
        """Store the token in the row, so that it rejects earlier holders from now on.

        Commit the transaction of `cursor` before the first read.

        Args:
            cursor: A cursor of psycopg, in the transaction that is to change the row.
            lease: The lease, or what `parse` of the HTTP guard returned.
            table: The name of the table, perhaps with its schema and a dot before it.
            key: The columns and values that identify the row.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST.
            LookupError: The key matches no row, or several. Nothing is changed.
            TypeError: The lease is a permit of a semaphore.
            psycopg.Error: The database has failed.
        """
        drive(self._write(ThreadLine(cursor), lease, table, key, {}))


class AsyncColumns(ColumnsCore):
    """The same as `Columns`, for asyncio.

    Args:
        token: The name of the column with the token, a bigint that is NOT NULL.
        id: The name of the column with the claim's id, a text that is NOT NULL.

    Example:
        ::

            columns = AsyncColumns()
            url = "postgresql://localhost/app"
            async with await psycopg.AsyncConnection.connect(url) as connection:
                cursor = connection.cursor()
                await cursor.execute(columns.add_to("invoices"))
                async with client.lock("invoice:42", ttl=10) as lease:
                    await columns.update(cursor, lease, "invoices", {"id": 42}, {"paid": True})
                    await connection.commit()
    """

    async def update(
        self,
        cursor: AsyncCursor[Any],
        lease: Holder,
        table: str,
        key: Mapping[str, object],
        values: Mapping[str, object],
    ) -> None:
        """Update one row, unless the lease is stale. See `Columns.update`.

        Args:
            cursor: A cursor of psycopg, in the transaction that is to change the row.
            lease: The lease, or what `parse` of the HTTP guard returned.
            table: The name of the table, perhaps with its schema and a dot before it.
            key: The columns and values that identify the row.
            values: The new values by column. A value may also be an expression of `psycopg.sql`.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST.
            LookupError: The key matches no row, or several. Nothing is changed.
            TypeError: The lease is a permit of a semaphore.
            psycopg.Error: The database has failed.
        """
        await self._write(AioLine(cursor), lease, table, key, values)

    async def seal(
        self, cursor: AsyncCursor[Any], lease: Holder, table: str, key: Mapping[str, object]
    ) -> None:
        """Store the token in the row. Commit it before the first read. See `Columns.seal`.

        Args:
            cursor: A cursor of psycopg, in the transaction that is to change the row.
            lease: The lease, or what `parse` of the HTTP guard returned.
            table: The name of the table, perhaps with its schema and a dot before it.
            key: The columns and values that identify the row.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST.
            LookupError: The key matches no row, or several. Nothing is changed.
            TypeError: The lease is a permit of a semaphore.
            psycopg.Error: The database has failed.
        """
        await self._write(AioLine(cursor), lease, table, key, {})
