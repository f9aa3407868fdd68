"""The column form of the guard for MariaDB and MySQL: the mark is in two columns of the row itself.

It needs no schema of lockfast. It guards only that row, and only statements that use it. If a row
is deleted and inserted again, its mark is lost, and a stale holder can write to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lockfast.errors import StaleToken, Unguarded
from lockfast.guards.columns import only, parameters
from lockfast.guards.mark import Holder, Mark, admit, refused, shown
from lockfast.guards.mysql.installation import rows
from lockfast.guards.mysql.trigger import quoted

# An id is compared as bytes: a collation may take two ids for one.
ADMITTED = (
    "(%(lockfast_token)s > {token} OR (%(lockfast_token)s = {token} AND (%(lockfast_shared)s "
    "OR CAST({id} AS BINARY) = CAST(%(lockfast_id)s AS BINARY))))"
)
# MySQL assigns from left to right, so the id comes before the token that it is compared with.
RAISED = (
    "{id} = CASE WHEN NOT %(lockfast_shared)s THEN %(lockfast_id)s "
    "WHEN %(lockfast_floor)s > {token} THEN '' ELSE {id} END, "
    "{token} = GREATEST({token}, %(lockfast_floor)s)"
)


@dataclass(frozen=True)
class Expression:
    """A piece of SQL as the new value of a column, such as `Expression("balance - 1")`.

    Args:
        sql: The SQL. It is sent as it is, and a percent sign in it is written twice.
    """

    sql: str
    """The SQL."""


class Columns:
    """Rejects stale writes to rows that have a mark in two columns of their own.

    Args:
        token: The name of the column with the token, a BIGINT that is NOT NULL.
        id: The name of the column with the claim's id, a VARBINARY(32) that is NOT NULL.

    Example:
        ::

            columns = Columns()
            cursor = connection.cursor()
            cursor.execute(columns.add_to("invoices"))
            with client.lock("invoice:42", ttl=10) as lease:
                columns.update(cursor, lease, "invoices", {"id": 42}, {"paid": True})
                connection.commit()
    """

    def __init__(self, token: str = "fence_token", id: str = "fence_id") -> None:  # noqa: A002, S107  # the columns' names
        """Take the names of the two columns."""
        self._columns = quoted(token), quoted(id)
        self._token, self._id = _identifier(token), _identifier(id)
        names = {"token": self._token, "id": self._id}
        self.where: str = ADMITTED.format(**names)
        """A condition for the WHERE of your own UPDATE. If it matches no row, the lease is stale,
        or the row does not exist. Connect with `client_flag=CLIENT.FOUND_ROWS`: otherwise the
        driver does not count a row that has these values already."""
        self.set: str = RAISED.format(**names)
        """Assignments for the SET of that UPDATE, which raise the mark."""

    def add_to(self, table: str) -> str:
        """Return the ALTER TABLE that adds the columns to a table. It fails if they are there.

        Args:
            table: The name of the table, perhaps with its database and a dot before it.

        Returns:
            The statement, for `cursor.execute`.
        """
        name, (token, id_) = ".".join(map(quoted, table.split("."))), self._columns
        return (
            f"ALTER TABLE {name} ADD COLUMN {token} BIGINT NOT NULL DEFAULT 0, "
            f"ADD COLUMN {id_} VARBINARY(32) NOT NULL DEFAULT ''"
        )

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

    def update(
        self,
        cursor: Any,  # noqa: ANN401  # the driver's
        lease: Holder,
        table: str,
        key: Mapping[str, object],
        values: Mapping[str, object],
    ) -> None:
        """Update one row, in the transaction of `cursor`, unless the lease is stale.

        Args:
            cursor: A cursor of PyMySQL, in the transaction that is to change the row.
            lease: The lease, or what `parse` of the HTTP guard returned.
            table: The name of the table, perhaps with its database and a dot before it.
            key: The columns and values that identify the row.
            values: The new values by column. A value may also be an `Expression`.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST.
            LookupError: The key matches no row, or several. Nothing is changed.
            Unguarded: The token's column is too small. Make it a BIGINT.
            TypeError: The lease is a permit of a semaphore.
            pymysql.Error: The database has failed.
        """
        given = {f"key_{n}": value for n, value in enumerate(key.values())}
        which = " AND ".join(f"{_identifier(name)} = %(key_{n})s" for n, name in enumerate(key))
        new, name = dict(given), _table(table)
        changes = []
        for n, (column, value) in enumerate(values.items()):
            if isinstance(value, Expression):
                changes.append(f"{_identifier(column)} = {value.sql}")
            else:
                changes.append(f"{_identifier(column)} = %(new_{n})s")
                new[f"new_{n}"] = value
        # The key must match exactly one row. Of several, some could be changed and others refused.
        # It is counted in the same statement, since the connection may be in autocommit. MySQL
        # reads a table that it updates only in a derived table. An UPDATE with JOIN would assign
        # in any order.
        cursor.execute(
            f"UPDATE {name} SET {', '.join([*changes, self.set])} "  # noqa: S608  # quoted
            f"WHERE {which} AND {self.where} AND (SELECT n FROM "
            f"(SELECT COUNT(*) AS n FROM {name} WHERE {which}) AS lockfast_rows) = 1",
            new | parameters(lease),
        )
        where = f"WHERE {which}", given
        if not cursor.rowcount:
            self._explain(cursor, lease, table, key, where)
        elif getattr(cursor, "warning_count", 0):
            for mark in self._marks(cursor, table, where):  # none if the key itself was changed
                self._ensure_whole(lease, table, mark)

    def seal(self, cursor: Any, lease: Holder, table: str, key: Mapping[str, object]) -> None:  # noqa: ANN401  # the driver's
        """Store the token in the row, so that it rejects earlier holders from now on.

        Commit the transaction of `cursor` before the first read.

        Args:
            cursor: A cursor of PyMySQL, in the transaction that is to change the row.
            lease: The lease, or what `parse` of the HTTP guard returned.
            table: The name of the table, perhaps with its database and a dot before it.
            key: The columns and values that identify the row.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST.
            LookupError: The key matches no row, or several. Nothing is changed.
            Unguarded: The token's column is too small. Make it a BIGINT.
            TypeError: The lease is a permit of a semaphore.
            pymysql.Error: The database has failed.
        """
        self.update(cursor, lease, table, key, {})

    def _explain(
        self,
        cursor: Any,  # noqa: ANN401  # the driver's
        lease: Holder,
        table: str,
        key: Mapping[str, object],
        where: tuple[str, Mapping[str, object]],
    ) -> None:
        """Raise the error for an UPDATE that changed no row, unless there was nothing to change.

        Drivers count the rows that were changed, and not those that were found. So the row is read,
        with a lock: a plain read would find the mark of an older snapshot. A mark never falls, so
        what it admits now, the UPDATE has admitted too.
        """
        mark = only(self._marks(cursor, table, where), table, key)
        try:
            admit(mark, shown(lease))
        except StaleToken:
            raise refused(lease, mark.token) from None

    def _marks(
        self,
        cursor: Any,  # noqa: ANN401  # the driver's
        table: str,
        where: tuple[str, Mapping[str, object]],
    ) -> list[Mark]:
        """Read the marks of these rows, with a lock."""
        cursor.execute(
            f"SELECT {self._token} AS token, {self._id} AS id FROM {_table(table)} "  # noqa: S608  # quoted
            f"{where[0]} FOR UPDATE",
            where[1],
        )
        return [
            Mark(token, id_.decode() if isinstance(id_, bytes) else id_)
            for token, id_ in rows(cursor)
        ]

    def _ensure_whole(self, lease: Holder, table: str, mark: Mark) -> None:
        """Raise `Unguarded` if a column was too small for the mark.

        Without strict mode the server stores what fits, with a warning. Such a mark is below every
        token, and admits all stale holders.
        """
        if mark.token < shown(lease).floor:
            raise Unguarded(
                f"the column {self._token} of {table} cannot store a token. Make it a BIGINT: the "
                "row accepts stale holders until then"
            )


def _identifier(name: str) -> str:
    return quoted(name).replace("%", "%%")  # the drivers format the statement


def _table(name: str) -> str:
    return ".".join(map(_identifier, name.split(".")))
