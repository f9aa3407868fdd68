"""A session's guarded transaction: while its block is open, the session cannot begin another."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Transaction, event
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Session

from lockfast.guards.sqlalchemy.database import Database

OPEN = "lockfast_guard"  # the key of the open block in `Connection.info`


def refuse_shared(connection: Connection, block: Block | None = None) -> None:
    """Raise an error if another block is open on the same connection of the driver.

    With a `StaticPool`, or if two sessions are bound to one connection, both are in one transaction
    of the database. A stale holder that entered first could write after the mark of the next one.
    """
    if connection.info.get(OPEN, block) is not block:
        raise InvalidRequestError(
            "another guarded transaction is open on this database connection, so both would be one "
            "transaction. Give each session a connection of its own, or pass all leases in one call"
        )


class Block:
    """A session's guarded transaction. While it is open, the session cannot begin another."""

    def __init__(self, session: Session, database: Database) -> None:
        """Begin the session's transaction."""
        # Entered as a context manager: after a commit or rollback in the block, SQLAlchemy refuses
        # everything until the block ends. Otherwise the session would begin another transaction,
        # which no guard has checked.
        self.transaction = session.begin().__enter__()
        self.database = database
        self._info: dict[Any, Any] = {}
        self._entered: Connection | None = None
        self._connection: Connection | None = None
        self._root: Transaction | None = None

    @property
    def undermined(self) -> bool:
        """Whether the connection's transaction has ended while the session's is still active."""
        ended = self._root is not None and not self._root.is_active
        return ended and self.transaction.is_active

    def enter(self, connection: Connection) -> None:
        """Note that this block is open on the connection. Raise an error if another one is."""
        connection.info.setdefault(OPEN, self)  # one step: the other may be in another thread
        refuse_shared(connection, self)
        self._info = connection.info
        self._entered = connection

    def bolt(self, connection: Connection) -> None:
        """Refuse statements after the transaction was ended below the session: by
        `session.connection().commit()`, or by a COMMIT as text.
        """
        self._connection = connection
        self._root = connection.get_transaction()
        event.listen(connection, "before_cursor_execute", self._refuse_next)
        event.listen(connection, "after_cursor_execute", self._done)
        # If the block ends the transaction, the connection goes back to its pool.
        event.listen(connection, "commit", self.forget)
        event.listen(connection, "rollback", self.forget)

    def forget(self, *_: object) -> None:
        """Clear what the check has set on the connection, before it ends its transaction."""
        connection = self._entered
        if connection is not None and not connection.closed and not connection.invalidated:
            self.database.forget(connection)

    def open(self) -> None:
        """Stop refusing statements: the connection may belong to the caller, who uses it again."""
        if self._info.get(OPEN) is self:
            del self._info[OPEN]
        connection, self._connection = self._connection, None
        if connection is not None:
            event.remove(connection, "before_cursor_execute", self._refuse_next)
            event.remove(connection, "after_cursor_execute", self._done)
            event.remove(connection, "commit", self.forget)
            event.remove(connection, "rollback", self.forget)

    def _refuse_next(
        self, connection: Connection, cursor: object, statement: str, *_: object
    ) -> None:
        """Refuse a statement after the end of the guarded transaction."""
        del cursor
        ended = self._root is not None and not self._root.is_active
        self.database.refuse_next(connection, statement, ended=ended)

    def _done(self, connection: Connection, cursor: object, statement: str, *_: object) -> None:
        del cursor
        self.database.done(connection, statement)
