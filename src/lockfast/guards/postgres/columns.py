"""The column form: the mark in two columns of the user's own row, for those who want no table.

It guards that row and nothing else, and only the statements that ask it. A row that is deleted and
made again begins without a mark: that reopens the door.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from psycopg import AsyncCursor, Cursor
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Composable, Composed, Identifier, Placeholder

from lockfast.guards.mark import Holder, refused, shown
from lockfast.runtime.drive import drive

# PostgreSQL's own operators and types, whatever stands in the session's search_path: one who may
# CREATE in a schema on it could otherwise have his own `=` called with these arguments.
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
        """Run a statement, and give its rows."""


class ColumnsCore:
    """Which columns they are, and the SQL around them."""

    def __init__(self, token: str = "fence_token", id: str = "fence_id") -> None:  # noqa: A002, S107  # the columns' names
        """Name the two columns: a bigint and a text, both NOT NULL."""
        names = {"token": Identifier(token), "id": Identifier(id)}
        self._token = names["token"]
        self._new = SQL(
            "ADD COLUMN IF NOT EXISTS {token} bigint NOT NULL DEFAULT 0, "
            "ADD COLUMN IF NOT EXISTS {id} text NOT NULL DEFAULT ''"
        ).format(**names)
        self.where: Composed = ADMITTED.format(**names)
        """For the WHERE of a statement of your own. No row changed: refused, or not there."""
        self.set: Composed = RAISED.format(**names)
        """For its SET."""

    def add_to(self, table: str) -> Composed:
        """Write the ALTER TABLE that makes the columns."""
        return SQL("ALTER TABLE {} {}").format(Identifier(*table.split(".")), self._new)

    @staticmethod
    def shown(lease: Holder) -> dict[str, object]:
        """Return the parameters that `where` and `set` ask for."""
        at = shown(lease)
        return {
            "lockfast_token": at.token,
            "lockfast_id": at.id,
            "lockfast_floor": at.floor,
            "lockfast_shared": at.shared,
        }

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
            SQL("{} = {}").format(Identifier(column), Placeholder(f"key_{n}"))
            for n, column in enumerate(key)
        )
        new = [
            SQL("{} = {}").format(
                Identifier(column),
                value if isinstance(value, Composable) else Placeholder(f"new_{n}"),
            )
            for n, (column, value) in enumerate(values.items())
        ]
        # One row or none: of several, some could be changed and others refused.
        update = SQL(
            "UPDATE {0} SET {1} WHERE {2} AND {3} AND "
            "(SELECT pg_catalog.count(*) FROM {0} WHERE {2}) OPERATOR(pg_catalog.=) 1 "
            "RETURNING true"
        ).format(name, SQL(", ").join([*new, self.set]), which, self.where)
        if await line.rows(update, given | self.shown(lease)):
            return
        look = SQL("SELECT {} FROM {} WHERE {}").format(self._token, name, which)
        found = await line.rows(look, given)
        if not found:
            raise LookupError(f"no row of {table} has {dict(key)}: there is nothing to guard")
        if len(found) > 1:
            raise LookupError(
                f"{len(found)} rows of {table} have {dict(key)}: nothing was changed. Each row has "
                "a mark of its own: update them one by one, by a unique key."
            )
        raise refused(lease, found[0][0])


class ThreadLine:
    """A cursor that blocks."""

    def __init__(self, cursor: Cursor[Any]) -> None:
        """Leave the caller's own cursor with the rows that it has."""
        self._cursor = cursor.connection.cursor(row_factory=tuple_row)

    async def rows(self, query: Composed, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Run it."""
        return self._cursor.execute(query, values).fetchall()


class AioLine:
    """A cursor that suspends."""

    def __init__(self, cursor: AsyncCursor[Any]) -> None:
        """Leave the caller's own cursor with the rows that it has."""
        self._cursor = cursor.connection.cursor(row_factory=tuple_row)

    async def rows(self, query: Composed, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Run it."""
        return await (await self._cursor.execute(query, values)).fetchall()


class Columns(ColumnsCore):
    """The column form, for threads."""

    def update(
        self,
        cursor: Cursor[Any],
        lease: Holder,
        table: str,
        key: Mapping[str, object],
        values: Mapping[str, object],
    ) -> None:
        """Change the row with that key, if the lease is current; a value may be `psycopg.sql`.

        Raises `StaleToken`, and the lease is LOST; `LookupError` where there is no such row.
        """
        drive(self._write(ThreadLine(cursor), lease, table, key, values))

    def seal(
        self, cursor: Cursor[Any], lease: Holder, table: str, key: Mapping[str, object]
    ) -> None:
        """Raise the row's mark. Commit it before the first read."""
        drive(self._write(ThreadLine(cursor), lease, table, key, {}))


class AsyncColumns(ColumnsCore):
    """The column form, for asyncio."""

    async def update(
        self,
        cursor: AsyncCursor[Any],
        lease: Holder,
        table: str,
        key: Mapping[str, object],
        values: Mapping[str, object],
    ) -> None:
        """Change the row with that key, if the lease is current."""
        await self._write(AioLine(cursor), lease, table, key, values)

    async def seal(
        self, cursor: AsyncCursor[Any], lease: Holder, table: str, key: Mapping[str, object]
    ) -> None:
        """Raise the row's mark. Commit it before the first read."""
        await self._write(AioLine(cursor), lease, table, key, {})
