"""The installation of the guard's schema on a MariaDB or MySQL server."""

from __future__ import annotations

from contextlib import closing
from importlib.resources import files
from typing import Any

from lockfast.errors import Unguarded

LOCK = "lockfast_guard.install"
PATIENCE = 10  # seconds. A DDL statement that waits for a long transaction blocks all after it
MODE = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"
"""The server stores this with each procedure and trigger, so that they run the same in every
session: without strict mode, they would cut a name that is too long."""
# MariaDB's GRANT creates a user who does not exist, with no password. MySQL's does not, and reads
# this as a comment, because it has no such mode.
NO_NEW_USER = "SET SESSION lock_wait_timeout = 10 /*M! , sql_mode = 'NO_AUTO_CREATE_USER' */"
NOBODY = frozenset([1133, 1410])  # on MariaDB and on MySQL
SESSION = "@@SESSION.sql_mode, @@SESSION.lock_wait_timeout"


def schema() -> list[str]:
    """Return the SQL that `install` runs, for projects that manage their migrations themselves.

    Returns:
        The statements. Each must be sent by itself. The session should have a strict `sql_mode`,
        which the server stores with each procedure.
    """
    text = (files("lockfast.guards.mysql") / "schema.sql").read_text(encoding="utf-8")
    return [each.strip() for each in text.split("\n//\n")]


def install(connection: Any, *, user: str | None = None) -> None:  # noqa: ANN401  # of any driver
    """Install the guard's schema `lockfast_guard`, or update it. It is safe to repeat.

    While it replaces the procedures, guarded transactions of others may fail. They write nothing
    then.

    Args:
        connection: A connection of PyMySQL or mysqlclient, or Django's, of a user that may create
            the database and its procedures. It is in no transaction, because DDL commits.
        user: A user that may write under the guard from then on, such as "app" or "app@10.0.%". It
            must exist, and cannot lower a mark.

    Raises:
        Unguarded: Another installation has run for more than ten seconds, or the user does not
            exist.
        pymysql.Error: The server has failed, or the user lacks a right.

    Example:
        ::

            install(connection, user="app")
    """
    with closing(connection.cursor()) as cursor, Settings(cursor):
        for each in schema():
            cursor.execute(each)
        if user is not None:
            name, _, host = user.rpartition("@") if "@" in user else (user, "", "%")
            cursor.execute(NO_NEW_USER)
            try:
                cursor.execute("GRANT EXECUTE ON lockfast_guard.* TO %s@%s", (name, host))
            except Exception as error:  # of the driver, or of Django
                if error.args and error.args[0] in NOBODY:
                    raise Unguarded(
                        f"the guard is installed, but there is no user {name!r} for the host "
                        f"{host!r}: CREATE USER first, or pass user='USER@HOST'"
                    ) from error
                raise


class Settings:
    """The settings of a session that creates procedures or triggers, and then has its own again.

    Only one session of a server has them at a time: two that replace the same triggers would leave
    two sets behind, each of which costs every write.
    """

    def __init__(self, cursor: Any) -> None:  # noqa: ANN401  # the driver's
        """Take a cursor of that session."""
        self._cursor = cursor

    def __enter__(self) -> None:
        self._cursor.execute(f"SELECT GET_LOCK('{LOCK}', {PATIENCE})")
        if rows(self._cursor) != [(1,)]:
            raise Unguarded("another installation of the guard is running on this server")
        self._cursor.execute(f"SELECT {SESSION}")
        (self._before,) = rows(self._cursor)
        self._set((MODE, PATIENCE))

    def __exit__(self, *error: object) -> None:
        self._set(self._before)
        self._cursor.execute(f"DO RELEASE_LOCK('{LOCK}')")

    def _set(self, values: tuple[object, ...]) -> None:
        self._cursor.execute("SET SESSION sql_mode = %s, SESSION lock_wait_timeout = %s", values)


def rows(cursor: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401  # the driver's
    """Return the rows of a cursor as tuples, also if it is one that returns dictionaries."""
    found = cursor.fetchall()
    return [tuple(each.values()) if isinstance(each, dict) else tuple(each) for each in found]
