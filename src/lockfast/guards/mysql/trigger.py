"""The trigger form of the guard for MariaDB and MySQL: which tables can have it, and its text."""

from __future__ import annotations

import re
from contextlib import closing
from secrets import token_hex
from typing import Any

from lockfast.guards.mysql.installation import Settings, rows

WRITES = {"INSERT": ("NEW",), "UPDATE": ("OLD", "NEW"), "DELETE": ("OLD",)}
NAMEABLE = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "char", "varchar", "enum"}
    | {"tinytext", "text", "date", "uuid"}
)
"""The types of columns whose text is the same in every session. A timestamp depends on the time
zone, and a float on how it is printed."""
CASCADES = """SELECT CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE CONSTRAINT_SCHEMA = %s AND TABLE_NAME = %s
AND NOT (UPDATE_RULE IN ('RESTRICT', 'NO ACTION') AND DELETE_RULE IN ('RESTRICT', 'NO ACTION'))"""
COLUMNS = """SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""
TABLE = """SELECT TABLE_TYPE, ENGINE FROM information_schema.TABLES
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"""
TRIGGERS = """SELECT TRIGGER_NAME FROM information_schema.TRIGGERS
WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s
AND ACTION_STATEMENT LIKE '%%lockfast\\_guard.demand\\_v1%%'"""


def protect(connection: Any, table: str, name: str) -> None:  # noqa: ANN401  # of any driver
    """Make a table refuse every row that is written without a current token of its lock.

    It creates three triggers. You can call it again, for example to change the name.

    Args:
        connection: A connection of PyMySQL or mysqlclient, or Django's, of a user with the right
            TRIGGER. It is in no transaction, because DDL commits.
        table: The name of the table, perhaps with its database and a dot before it.
        name: The lock: one name for the whole table, or a name per row with columns in braces, such
            as `invoice:{id}`.

    Raises:
        ValueError: The table cannot be protected by triggers, or a column in the name is not there
            or has a type that cannot be part of a name.
        pymysql.Error: The server has failed, or the user lacks a right.

    Example:
        ::

            protect(connection, "invoices", "invoice:{id}")
    """
    with closing(connection.cursor()) as cursor, Settings(cursor):
        where = _place(cursor, table)
        _refuse(cursor, where)
        parts = _parts(cursor, where, name)
        old = _triggers(cursor, where)
        title = f"lockfast_{token_hex(8)}"
        # A random name: names of triggers are unique in a database, and a table that was renamed
        # has kept its own.
        for write, sides in WRITES.items():
            demands = [_demand(where, parts, side) for side in sides]
            cursor.execute(_created(where, title, write, demands))
        # After the new ones: each DDL statement commits, and between a DROP and a CREATE anybody
        # could write. Until then a write needs the locks of both.
        _drop(cursor, where, old)


def unprotect(connection: Any, table: str) -> None:  # noqa: ANN401  # of any driver
    """Remove the triggers that `protect` has created.

    Args:
        connection: As for `protect`.
        table: The name of the table, perhaps with its database and a dot before it.

    Raises:
        ValueError: No database is selected, and the name has none.
        pymysql.Error: The server has failed, or the user lacks a right.
    """
    with closing(connection.cursor()) as cursor, Settings(cursor):
        where = _place(cursor, table)
        _drop(cursor, where, _triggers(cursor, where))


def _place(cursor: Any, table: str) -> tuple[str, str]:  # noqa: ANN401  # the driver's
    """Return the database and the name of a table."""
    database, _, name = table.rpartition(".")
    if not database:
        cursor.execute("SELECT DATABASE()")
        ((database,),) = rows(cursor)
    if not database:
        raise ValueError(f"no database is selected: write the name as database.{table}")
    return database, name


def _refuse(cursor: Any, where: tuple[str, str]) -> None:  # noqa: ANN401  # the driver's
    """Raise an error for a table that can be written past its triggers."""
    cursor.execute(TABLE, where)
    found = rows(cursor)
    if not found or found[0][0] != "BASE TABLE":
        raise ValueError(f"{'.'.join(where)} is not a table that can have triggers")
    ((_, engine),) = found
    if engine != "InnoDB":
        raise ValueError(
            f"{'.'.join(where)} is a table of {engine}, which cannot take a refused write back. "
            "Only InnoDB tables can be protected."
        )
    cursor.execute(CASCADES, where)
    cascades = [name for (name,) in rows(cursor)]
    if cascades:
        raise ValueError(
            f"a write to another table changes rows of {'.'.join(where)} by the foreign key "
            f"{', '.join(cascades)}, and the server runs no trigger for them. Change its ON DELETE "
            "and ON UPDATE to RESTRICT first."
        )


def _parts(cursor: Any, where: tuple[str, str], name: str) -> list[str]:  # noqa: ANN401  # the driver's
    """Return the parts of a name: text, a column, text, a column, ..., text."""
    parts = re.split(r"[{}]", name)
    cursor.execute(COLUMNS, where)
    types = {column: kind.lower() for column, kind in rows(cursor)}
    missing = [column for column in parts[1::2] if column not in types]
    if len(parts) % 2 == 0 or missing:
        raise ValueError(
            f"the lock's name for {'.'.join(where)} must have columns of that table in braces: "
            f"{name}"
        )
    for column in parts[1::2]:
        if types[column] not in NAMEABLE:
            raise ValueError(
                f"the column {column} is a {types[column]}, whose text differs between sessions or "
                "is no text, so it cannot be part of a lock's name"
            )
    return parts


def _triggers(cursor: Any, where: tuple[str, str]) -> list[str]:  # noqa: ANN401  # the driver's
    """Return the names of our triggers on a table. They keep them when the table is renamed."""
    cursor.execute(TRIGGERS, where)
    return [name for (name,) in rows(cursor)]


def _drop(cursor: Any, where: tuple[str, str], names: list[str]) -> None:  # noqa: ANN401  # the driver's
    for name in names:
        cursor.execute(f"DROP TRIGGER {quoted(where[0])}.{quoted(name)}")


def _created(where: tuple[str, str], title: str, write: str, demands: list[str]) -> str:
    # AFTER, because a BEFORE trigger does not know the value of an AUTO_INCREMENT yet, and the
    # columns that another trigger changes. InnoDB undoes the statement if it is refused.
    return (
        f"CREATE TRIGGER {quoted(where[0])}.{title}_{write.lower()} AFTER {write} ON "
        f"{quoted(where[0])}.{quoted(where[1])} FOR EACH ROW BEGIN {' '.join(demands)} END"
    )


def _demand(where: tuple[str, str], parts: list[str], row: str) -> str:
    pieces = [
        f"COALESCE(CONVERT({row}.{quoted(part)} USING utf8mb4), '')"
        if place % 2
        else f"CONVERT(X'{part.encode().hex()}' USING utf8mb4)"
        for place, part in enumerate(parts)
    ]
    table = ".".join(where).encode().hex()
    return (
        f"CALL lockfast_guard.demand_v1(CAST(CONCAT({', '.join(pieces)}) AS BINARY), "
        f"CONVERT(X'{table}' USING utf8mb4));"
    )


def quoted(name: str) -> str:
    """Return a name as an identifier."""
    return f"`{name.replace('`', '``')}`"
