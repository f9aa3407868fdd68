"""The PostgreSQL guard for SQLAlchemy 2: transactions that reject a stale lease.

It works with `Session` and `AsyncSession`, over SQLAlchemy's `postgresql+psycopg` driver.
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
    """Store the token of each lease, so that the database rejects earlier holders from now on.

    Call it right after acquiring, before the first read. It commits a transaction of its own.

    Args:
        session: The session. It must not be in a transaction.
        leases: One or more leases, or what `parse` of the HTTP guard returned.

    Raises:
        StaleToken: A later holder has been there. The lease is LOST then, and nothing is written.
        LeaseLost: A lease is not held any more.
        TypeError: There is no lease, or a lease is a permit of a semaphore.
        sqlalchemy.exc.SQLAlchemyError: The database has failed, or the session is in a transaction.
    """
    _seal(session, leases)


@contextmanager
def transaction(session: Session, *leases: Holder, check_lease: bool = False) -> Iterator[Session]:
    """Run a block in a transaction that checks the leases first. It commits at the end.

    Args:
        session: The session. It must not be in a transaction.
        leases: One or more leases, or what `parse` of the HTTP guard returned.
        check_lease: Also ask the lock's engine. See `PostgresGuard.transaction`.

    Yields:
        The session.

    Raises:
        StaleToken: A later holder has been there. The lease is LOST then, and nothing is written.
        LeaseLost: A lease is not held any more.
        Unguarded: The block has ended the transaction and sent another statement, or a trigger
            guards a row by another lock.
        TypeError: There is no lease, or a lease is a permit of a semaphore.
        sqlalchemy.exc.SQLAlchemyError: The database has failed, the session is in a transaction
            already, or the block has ended the guarded one.

    Example:
        ::

            engine = create_engine("postgresql+psycopg://localhost/app")
            with Session(engine) as session, client.lock("invoice:42", ttl=10) as lease:
                seal(session, lease)
                with transaction(session, lease):
                    session.execute(text("UPDATE invoices SET paid = true WHERE id = 42"))
            engine.dispose()
    """
    block = _begin(session, leases, check_lease=check_lease)
    try:
        yield session
    except BaseException as error:
        _fail(session, leases, block, error)
        raise
    _commit(session, leases, block)


async def async_seal(session: AsyncSession, *leases: Holder) -> None:
    """Do the same as `seal`, for an `AsyncSession`.

    Args:
        session: The session. It must not be in a transaction.
        leases: One or more leases, or what `parse` of the HTTP guard returned.

    Raises:
        StaleToken: A later holder has been there. The lease is LOST then, and nothing is written.
        LeaseLost: A lease is not held any more.
        TypeError: There is no lease, or a lease is a permit of a semaphore.
        sqlalchemy.exc.SQLAlchemyError: The database has failed, or the session is in a transaction.
    """
    await session.run_sync(_seal, leases)


@asynccontextmanager
async def async_transaction(
    session: AsyncSession, *leases: Holder, check_lease: bool = False
) -> AsyncIterator[AsyncSession]:
    """Do the same as `transaction`, for an `AsyncSession`.

    Args:
        session: The session. It must not be in a transaction.
        leases: One or more leases, or what `parse` of the HTTP guard returned.
        check_lease: Also ask the lock's engine. See `PostgresGuard.transaction`.

    Yields:
        The session.

    Raises:
        StaleToken: A later holder has been there. The lease is LOST then, and nothing is written.
        LeaseLost: A lease is not held any more.
        Unguarded: The block has ended the transaction and sent another statement, or a trigger
            guards a row by another lock.
        TypeError: There is no lease, or a lease is a permit of a semaphore.
        sqlalchemy.exc.SQLAlchemyError: The database has failed, the session is in a transaction
            already, or the block has ended the guarded one.

    Example:
        ::

            engine = create_async_engine("postgresql+psycopg://localhost/app")
            async with AsyncSession(engine) as session:
                async with client.lock("invoice:42", ttl=10) as lease:
                    await async_seal(session, lease)
                    async with async_transaction(session, lease):
                        await session.execute(text("UPDATE invoices SET paid = true"))
            await engine.dispose()
    """
    block = await session.run_sync(_begin, leases, check_lease=check_lease)
    try:
        yield session
    except BaseException as error:
        await session.run_sync(_fail, leases, block, error)
        raise
    await session.run_sync(_commit, leases, block)


# The functions below serve both: `AsyncSession.run_sync` runs them with its own sync session.


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
    """A session's guarded transaction. While it is open, the session cannot begin another."""

    def __init__(self, session: Session) -> None:
        # Entered as a context manager: after a commit or rollback in the block, SQLAlchemy refuses
        # everything until the block ends. Otherwise the session would begin another transaction,
        # which no guard has checked.
        self.transaction = session.begin().__enter__()
        self._connection: Connection | None = None
        self._root: Transaction | None = None

    @property
    def undermined(self) -> bool:
        """Whether the connection's transaction has ended while the session's is still active."""
        ended = self._root is not None and not self._root.is_active
        return ended and self.transaction.is_active

    def bolt(self, connection: Connection) -> None:
        """Refuse statements after the transaction was ended below the session: by
        `session.connection().commit()`, or by a COMMIT as text.
        """
        self._connection = connection
        self._root = connection.get_transaction()
        event.listen(connection, "before_cursor_execute", _refuse_next)

    def open(self) -> None:
        """Stop refusing statements: the connection may belong to the caller, who uses it again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            event.remove(connection, "before_cursor_execute", _refuse_next)


def _refuse_next(connection: Connection, *_: object) -> None:
    """Refuse a statement after the end of the guarded transaction."""
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
        if over(driver):  # also after an error that the block caught: COMMIT would roll back
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
    """Roll back. If the error means that a lease is lost, raise that instead."""
    try:
        block.open()
        if block.undermined:  # there is no transaction left that could be rolled back
            session.invalidate()
        block.transaction.__exit__(type(error), error, error.__traceback__)
        session.rollback()
    except DBAPIError:  # the connection is lost: then the server has rolled back by itself
        session.invalidate()
    if not isinstance(error, DBAPIError):
        return
    meant = _refusal(error, leases)
    if meant is None and getattr(error.orig, "sqlstate", None) in AGAIN:
        try:  # the mark shows whether the lease is stale. If it is not, the caller may try again
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
