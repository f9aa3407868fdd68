"""One row in MariaDB, behind each form of the guard."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, TypeAlias
from urllib.parse import urlsplit

import pymysql
from pymysql.connections import Connection

from lockfast.guards.mysql import Columns, MysqlGuard
from lockfast.guards.mysql.statements import refusal
from lockfast.primitives.lease import LeaseCore

Link: TypeAlias = "Connection[Any]"
Rows: TypeAlias = tuple[tuple[Any, ...], ...]

TABLES = (
    """CREATE TABLE register (id INT PRIMARY KEY, value VARCHAR(200) NOT NULL,
    fence_token BIGINT NOT NULL DEFAULT 0, fence_id VARBINARY(32) NOT NULL DEFAULT '')""",
    "CREATE TABLE watched (id INT PRIMARY KEY, value VARCHAR(200) NOT NULL)",
    "INSERT INTO register (id, value) VALUES (1, '0 start')",
    "INSERT INTO watched VALUES (1, '0 start')",
)
UPDATE = "UPDATE register SET value = %s WHERE id = 1"
SELECT = "SELECT value FROM register WHERE id = 1"


def connect(where: str, **options: Any) -> Link:  # noqa: ANN401  # those of pymysql.connect
    """Connect in autocommit, unless the options say otherwise."""
    parts = urlsplit(where)
    return pymysql.connect(
        **{
            "host": parts.hostname,
            "port": parts.port,
            "user": parts.username,
            "password": parts.password,
            "database": "app",
            "autocommit": True,
            "connect_timeout": 5,
            **options,
        }
    )


def run(connection: Link, statement: str, values: Sequence[object] | None = None) -> Rows:
    """Run a statement, and give its rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return tuple(cursor.fetchall())


class Marked:
    """Guarded by a mark."""

    broken: ClassVar[tuple[type[Exception], ...]] = (pymysql.Error,)
    table: ClassVar[str] = "register"

    def __init__(self, where: str) -> None:
        self._where = where
        self._connected: Link | None = None
        self._open: AbstractContextManager[Any] | None = None

    @property
    def connection(self) -> Link:
        """The connection, or another if that was cut off."""
        if self._connected is None or not self._connected.open:
            self._connected = connect(self._where)
        return self._connected

    @property
    def _update(self) -> str:
        return UPDATE.replace("register", self.table)

    def seal(self, lease: LeaseCore) -> None:
        MysqlGuard(self.connection).seal(lease)

    def read(self, lease: LeaseCore) -> str:  # noqa: ARG002  # the story's
        with self.connection.cursor() as cursor:
            cursor.execute(SELECT.replace("register", self.table))
            return str(cursor.fetchone()[0])

    def write(self, lease: LeaseCore, value: str) -> None:
        with MysqlGuard(self.connection).transaction(lease) as cursor:
            cursor.execute(self._update, [value])

    def write_bare(self, lease: LeaseCore, value: str) -> None:  # noqa: ARG002  # the story's
        with self.connection.cursor() as cursor:
            cursor.execute(self._update, [value])

    def begin(self, lease: LeaseCore, value: str) -> None:
        """Write, and do not commit yet."""
        self._open = MysqlGuard(self.connection).transaction(lease)
        self._open.__enter__().execute(UPDATE, [value])

    def commit(self, lease: LeaseCore) -> None:  # noqa: ARG002  # the story's
        assert self._open is not None
        self._open.__exit__(None, None, None)

    def close(self) -> None:
        if self._connected is not None and self._connected.open:
            self._connected.close()


class Columned(Marked):
    """Guarded by columns of its own row."""

    def seal(self, lease: LeaseCore) -> None:
        with self.connection.cursor() as cursor:
            Columns().seal(cursor, lease, "register", {"id": 1})

    def write(self, lease: LeaseCore, value: str) -> None:
        with self.connection.cursor() as cursor:
            Columns().update(cursor, lease, "register", {"id": 1}, {"value": value})


class Triggered(Marked):
    """Guarded by a trigger: the program only says which lease it has."""

    table: ClassVar[str] = "watched"

    def write(self, lease: LeaseCore, value: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(
                "SET @lockfast_name = %s, @lockfast_token = %s, @lockfast_id = %s",
                [lease.name, lease.token, lease.id],
            )
            try:
                cursor.execute(self._update, [value])
            except pymysql.Error as error:
                raise refusal(error, [lease]) or error from error
