"""The PostgreSQL guard for SQLAlchemy 2: a transaction that only a current lease gets into.

For Session and AsyncSession, over SQLAlchemy's `postgresql+psycopg` driver.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from sqlalchemy import Connection, Transaction, event
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from lockfast.errors import LockfastError
from lockfast.guards.mark import Holder
from lockfast.guards.postgres.bolt import over, refuse, refuse_next
from lockfast.guards.postgres.statements import (
    AGAIN,
    BLOCK,
    block_of,
    ensure_held,
    entering,
    refusal,
    sealing,
)


def seal(session: Session, *leases: Holder) -> None:
    """Raise the mark, in a transaction of its own: right after the grant, before the first read."""
    _seal(session, leases)


@contextmanager
def transaction(session: Session, *leases: Holder, check_lease: bool = False) -> Iterator[Session]:
    """Begin the session's transaction by the check, and commit it at the end.

    Raises `StaleToken`, and the lease is LOST, if a later holder has been there.
    """
    block = _begin(session, leases, check_lease=check_lease)
    try:
        yield session
    except BaseException as error:
        _fail(session, leases, block, error)
        raise
    _commit(session, leases, block)


async def async_seal(session: AsyncSession, *leases: Holder) -> None:
    """Raise the mark, in a transaction of its own: right after the grant, before the first read."""
    await session.run_sync(_seal, leases)


@asynccontextmanager
async def async_transaction(
    session: AsyncSession, *leases: Holder, check_lease: bool = False
) -> AsyncIterator[AsyncSession]:
    """Begin the session's transaction by the check, and commit it at the end."""
    block = await session.run_sync(_begin, leases, check_lease=check_lease)
    try:
        yield session
    except BaseException as error:
        await session.run_sync(_fail, leases, block, error)
        raise
    await session.run_sync(_commit, leases, block)


# Once for both: an AsyncSession runs them in its own session, over a driver that suspends.


def _seal(session: Session, leases: tuple[Holder, ...]) -> None:
    try:
        with session.begin():
            options = {"isolation_level": "READ COMMITTED"}
            connection = session.connection(execution_options=options)
            for call in sealing(leases):
                connection.exec_driver_sql(call)
    except DBAPIError as error:
        meant = _refusal(error, leases)
        if meant is not None:
            raise meant from error
        raise
    ensure_held(leases)


class _Block:
    """A session's guarded transaction: while it is open, the session cannot begin another."""

    def __init__(self, session: Session) -> None:
        # Entered as a context: after a commit or rollback in the block, SQLAlchemy lets the session
        # do nothing more before its end. Otherwise it would begin another transaction, unguarded.
        self.transaction = session.begin().__enter__()
        self._connection: Connection | None = None
        self._root: Transaction | None = None

    @property
    def undermined(self) -> bool:
        """Whether the connection's transaction has ended beneath the session's."""
        ended = self._root is not None and not self._root.is_active
        return ended and self.transaction.is_active

    def bolt(self, connection: Connection) -> None:
        """Do the same beneath the session: `session.connection().commit()`, a COMMIT as text."""
        self._connection = connection
        self._root = connection.get_transaction()
        event.listen(connection, "before_cursor_execute", _refuse_next)

    def open(self) -> None:
        """End it: a connection that is the caller's own is free again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            event.remove(connection, "before_cursor_execute", _refuse_next)


def _refuse_next(connection: Connection, *_: object) -> None:
    """Refuse a statement behind the guarded transaction."""
    driver: Any = connection.connection.driver_connection
    refuse_next(driver)


def _begin(session: Session, leases: tuple[Holder, ...], *, check_lease: bool) -> _Block:
    block = _Block(session)
    try:
        connection = session.connection()
        driver: Any = connection.connection.dbapi_connection
        if driver.autocommit:
            raise InvalidRequestError(
                "in AUTOCOMMIT nothing can be guarded: the check would be over before the write"
            )
        for call in entering(leases, check_lease=check_lease):
            connection.exec_driver_sql(call)
        ensure_held(leases)
        block.bolt(connection)
    except BaseException as error:
        _fail(session, leases, block, error)
        raise
    return block


def _commit(session: Session, leases: tuple[Holder, ...], block: _Block) -> None:
    try:
        if session.get_transaction() is not block.transaction or not block.transaction.is_active:
            raise InvalidRequestError(
                "the guarded transaction was ended within its block: what came after that was not "
                "guarded"
            )
        session.flush()
        connection = session.connection()
        driver: Any = connection.connection.driver_connection
        if over(driver):  # also by an error that was caught: a COMMIT would roll back, silently
            refuse()
        if connection.exec_driver_sql(BLOCK).scalar() != block_of(leases):
            refuse()
        block.open()
        block.transaction.__exit__(None, None, None)
    except BaseException as error:  # a flush that failed, or a trigger that refused
        _fail(session, leases, block, error)
        raise


def _fail(
    session: Session,
    leases: tuple[Holder, ...],
    block: _Block,
    error: BaseException,
) -> None:
    """Roll back; raise what the error means, if it means that the lease is lost."""
    try:
        block.open()
        if block.undermined:  # there is nothing that a rollback could find
            session.invalidate()
        block.transaction.__exit__(type(error), error, error.__traceback__)
        session.rollback()
    except DBAPIError:  # cut off: then the server has rolled back by itself
        session.invalidate()
    if not isinstance(error, DBAPIError):
        return
    meant = _refusal(error, leases)
    if meant is None and getattr(error.orig, "sqlstate", None) in AGAIN:
        try:  # the mark knows what it was; if it does not say no, the caller may try again
            _seal(session, leases)
        except LockfastError as again:
            meant = again
        except DBAPIError:
            pass
    if meant is not None:
        raise meant from error


def _refusal(error: DBAPIError, leases: tuple[Holder, ...]) -> LockfastError | None:
    cause: Any = error.orig
    return refusal(cause, leases) if hasattr(cause, "sqlstate") else None
