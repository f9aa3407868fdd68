"""SQLite for the guard of SQLAlchemy, over Python's sqlite3 or aiosqlite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, InvalidRequestError, OperationalError
from sqlalchemy.orm import Session

from lockfast.errors import LockfastError, Unguarded
from lockfast.guards.mark import Holder, refused, shown
from lockfast.guards.sqlite.statements import BEGIN, CREATE, CURRENT, END, admission

INSTALL = (
    "the table lockfast_guard_mark is not in this database: call "
    "lockfast.guards.sqlalchemy.install once, with a connection"
)


class SqliteDatabase:
    """The table `lockfast_guard_mark`, in the database that is written to."""

    def install(self, connection: Connection) -> None:
        """Create the table."""
        connection.exec_driver_sql(CREATE)

    def options(self) -> dict[str, object]:
        """Return nothing: SQLite's transactions are serializable."""
        return {}

    def seal(self, connection: Connection, leases: Sequence[Holder]) -> None:
        """Write the marks."""
        if not leases:
            raise TypeError("a guard needs a lease")
        # In the order of names, as on other databases.
        for lease in sorted(leases, key=shown):
            at = shown(lease)
            sql, values = admission(at)
            if not connection.exec_driver_sql(sql, values).rowcount:
                name = at.name.encode()
                current = connection.exec_driver_sql(CURRENT, (name,)).scalar()
                raise refused(lease, int(current or 0))

    def enter(self, connection: Connection, leases: Sequence[Holder], *, check: bool) -> None:
        """Write the marks, which keeps all other writers out until the transaction ends."""
        if check:
            raise InvalidRequestError(
                "check_lease needs the lock and the data in one PostgreSQL database"
            )
        self.seal(connection, leases)
        if not _within(connection):
            raise InvalidRequestError(
                "the guard does not work in AUTOCOMMIT: the check ends before the write"
            )
        connection.exec_driver_sql(BEGIN)

    def refuse_next(self, connection: Connection, statement: str, *, ended: bool) -> None:
        """Raise `Unguarded` if the connection is in no transaction, or in another one.

        With `autocommit=False`, the driver begins another one with each commit.
        """
        del statement
        if ended or not _within(connection):
            _refuse()

    def done(self, connection: Connection, statement: str) -> None:
        """Do nothing: the driver knows whether it is in a transaction."""

    def finish(self, session: Session, leases: Sequence[Holder]) -> None:
        """Raise `Unguarded` if the transaction is not the one in which the marks were written."""
        del leases
        connection = session.connection()
        if not _within(connection):
            _refuse()
        try:
            while (nested := session.get_nested_transaction()) is not None:  # the block left it
                nested.commit()
            connection.exec_driver_sql(END)
        except OperationalError as error:
            raise Unguarded(ENDED) from error

    def forget(self, connection: Connection) -> None:
        """Do nothing: the check sets nothing."""

    def refusal(self, error: DBAPIError, leases: Sequence[Holder]) -> LockfastError | None:
        """Return an error for a database without marks. A stale lease is no error of SQLite's."""
        del leases
        missing = "no such table: lockfast_guard_mark" in str(error.orig)
        return Unguarded(INSTALL) if missing else None

    def again(self, error: DBAPIError) -> bool:
        """Return False: nobody else can write while a guarded transaction is open."""
        del error
        return False


ENDED = (
    "the guarded transaction had ended before its block did, by a commit or rollback in the block. "
    "The guard rejects later statements, because it has not checked their transaction. Leave the "
    "block, and begin another one."
)


def _refuse() -> NoReturn:
    raise Unguarded(ENDED)


def _within(connection: Connection) -> bool:
    """Return whether the driver's connection is in a transaction."""
    driver: Any = connection.connection.driver_connection
    return bool(driver.in_transaction)
