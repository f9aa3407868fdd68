"""PostgreSQL for the guard of SQLAlchemy, over its psycopg driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.orm import Session

from lockfast.errors import LockfastError
from lockfast.guards.mark import Holder
from lockfast.guards.postgres import PATIENCE, schema
from lockfast.guards.postgres.bolt import over, refuse, refuse_next
from lockfast.guards.postgres.statements import (
    AGAIN,
    BLOCK,
    block_of,
    entering,
    refusal,
    sealing,
)


class PostgresDatabase:
    """The functions of the schema `lockfast_guard`."""

    def install(self, connection: Connection) -> None:
        """Create the schema, in the transaction of the connection."""
        # Without parameters, psycopg sends the statements in one message, as they are written.
        connection.exec_driver_sql(
            f"{PATIENCE}; {schema()}", execution_options={"no_parameters": True}
        )

    def options(self) -> dict[str, object]:
        """Return the isolation level at which a seal does not fail when another one collides."""
        return {"isolation_level": "READ COMMITTED"}

    def seal(self, connection: Connection, leases: Sequence[Holder]) -> None:
        """Call `seal_v1` for each lease."""
        for call in sealing(leases):
            connection.exec_driver_sql(call)

    def enter(self, connection: Connection, leases: Sequence[Holder], *, check: bool) -> None:
        """Call `enter_v1` for each lease. Refuse a connection in AUTOCOMMIT."""
        driver: Any = connection.connection.dbapi_connection
        if driver.autocommit:
            raise InvalidRequestError(
                "the guard does not work in AUTOCOMMIT: the check ends before the write"
            )
        for call in entering(leases, check_lease=check):
            connection.exec_driver_sql(call)

    def refuse_next(self, connection: Connection, statement: str, *, ended: bool) -> None:
        """Raise `Unguarded` if the connection is in no transaction."""
        del statement
        if ended:
            refuse()
        driver: Any = connection.connection.driver_connection
        refuse_next(driver)

    def done(self, connection: Connection, statement: str) -> None:
        """Do nothing: psycopg knows the state of the transaction."""

    def finish(self, session: Session, leases: Sequence[Holder]) -> None:
        """Raise `Unguarded` if the transaction has failed, or is another one."""
        connection = session.connection()
        driver: Any = connection.connection.driver_connection
        if over(driver):  # also after an error that the block caught: COMMIT would roll back
            refuse()
        if connection.exec_driver_sql(BLOCK).scalar() != block_of(leases):
            refuse()

    def forget(self, connection: Connection) -> None:
        """Do nothing: the settings end with the transaction."""

    def refusal(self, error: DBAPIError, leases: Sequence[Holder]) -> LockfastError | None:
        """Read the SQLSTATE."""
        cause: Any = error.orig
        return refusal(cause, leases) if hasattr(cause, "sqlstate") else None

    def again(self, error: DBAPIError) -> bool:
        """Return whether the transaction has collided with another one."""
        return getattr(error.orig, "sqlstate", None) in AGAIN
