"""MariaDB and MySQL for the guard of SQLAlchemy, over PyMySQL, asyncmy or aiomysql."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.orm import Session

from lockfast.errors import LockfastError
from lockfast.guards.mark import Holder
from lockfast.guards.mysql.installation import install
from lockfast.guards.mysql.lookout import Lookout
from lockfast.guards.mysql.statements import (
    AUTOCOMMIT,
    ENDED,
    FORGET,
    LEAVE,
    STILL,
    again,
    code_of,
    entering,
    refusal,
    sealing,
)

LOOKOUT = "lockfast_lookout"  # the key of the open block's lookout in `Connection.info`


class MysqlDatabase:
    """The procedures of the schema `lockfast_guard`."""

    def install(self, connection: Connection) -> None:
        """Create the schema, with the driver's own connection."""
        install(connection.connection)

    def options(self) -> dict[str, object]:
        """Return nothing: the seal is the same at every isolation level."""
        return {}

    def seal(self, connection: Connection, leases: Sequence[Holder]) -> None:
        """Call `seal_v1`, which commits by itself."""
        connection.exec_driver_sql(sealing(leases))

    def enter(self, connection: Connection, leases: Sequence[Holder], *, check: bool) -> None:
        """Call `enter_v1`. Refuse a connection in AUTOCOMMIT."""
        if check:
            raise InvalidRequestError(
                "check_lease needs the lock and the data in one PostgreSQL database"
            )
        try:
            connection.exec_driver_sql(entering(leases))
        except DBAPIError as error:
            if error.orig is not None and code_of(error.orig) == AUTOCOMMIT:
                raise InvalidRequestError(
                    "the guard does not work in AUTOCOMMIT: the check ends before the write"
                ) from error
            raise
        connection.info[LOOKOUT] = Lookout()

    def refuse_next(self, connection: Connection, statement: str, *, ended: bool) -> None:
        """Raise `Unguarded` for a statement that ends the transaction, or comes after its end."""
        lookout: Lookout = connection.info[LOOKOUT]
        if ended:
            lookout.end()
        if lookout.before(statement):
            _ask(connection, lookout)

    def done(self, connection: Connection, statement: str) -> None:
        """Note that a statement has succeeded."""
        lookout: Lookout = connection.info[LOOKOUT]
        lookout.after(statement)

    def finish(self, session: Session, leases: Sequence[Holder]) -> None:
        """Raise `Unguarded` if the transaction is not the one that was entered."""
        del leases
        connection = session.connection()
        while (nested := session.get_nested_transaction()) is not None:  # the block left it
            nested.commit()
        connection.exec_driver_sql(LEAVE)

    def forget(self, connection: Connection) -> None:
        """Clear the session variables and the timeouts."""
        _run(connection, FORGET)

    def refusal(self, error: DBAPIError, leases: Sequence[Holder]) -> LockfastError | None:
        """Read the message of the server."""
        return None if error.orig is None else refusal(error.orig, leases)

    def again(self, error: DBAPIError) -> bool:
        """Return whether the transaction has collided with another one."""
        return error.orig is not None and again(error.orig)


def _ask(connection: Connection, lookout: Lookout) -> None:
    """Raise `Unguarded` unless the server is still in a transaction."""
    driver = connection.dialect.loaded_dbapi.Error
    try:
        _run(connection, STILL)
    except driver as error:
        if code_of(error) == ENDED:
            lookout.end()
        raise


def _run(connection: Connection, statement: str) -> None:
    """Run a statement of the guard's, with no events of SQLAlchemy's."""
    cursor = connection.connection.cursor()
    try:
        cursor.execute(statement)
    finally:
        cursor.close()
