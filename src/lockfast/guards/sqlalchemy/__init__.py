"""The guard for SQLAlchemy 2: transactions that reject a stale lease.

It works with `Session` and `AsyncSession`, on PostgreSQL (`postgresql+psycopg`), on MariaDB and
MySQL (`mysql+pymysql`), and on SQLite.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, scoped_session

from lockfast.errors import LockfastError
from lockfast.guards.leases import ensure_held
from lockfast.guards.mark import Holder
from lockfast.guards.sqlalchemy.block import Block, refuse_shared
from lockfast.guards.sqlalchemy.database import database_of


def install(connection: Connection) -> None:
    """Install the guard in the database of a connection, unless it is there. Needed once.

    In SQLite it creates a table, and elsewhere the schema `lockfast_guard`. With asyncio, call it
    by `await connection.run_sync(install)`.

    Args:
        connection: A connection to the database, in a transaction that has done nothing else:
            `engine.begin()`. On MariaDB and MySQL the DDL commits by itself.

    Raises:
        Unguarded: Another installation has run on MariaDB or MySQL for more than ten seconds.
        sqlalchemy.exc.SQLAlchemyError: The database has failed, or the user lacks a right. On
            MariaDB and MySQL it is the driver's own error.

    Example::

        from sqlalchemy import create_engine
        from lockfast.guards import sqlalchemy as guard

        engine = create_engine("sqlite:///app.db")
        with engine.begin() as connection:
            guard.install(connection)

    """
    database_of(connection.dialect).install(connection)


def seal(session: Session | scoped_session[Session], *leases: Holder) -> None:
    """Store the token of each lease, so that the database rejects earlier holders from now on.

    Call it right after acquiring, before the first read. It commits a transaction of its own.

    Args:
        session: The session. It must not be in a transaction.
        leases: One or more leases, or what `parse` of the HTTP guard returned.

    Raises:
        StaleToken: The guard has seen a higher token. The lease is LOST, and nothing is written.
        LeaseLost: A lease is not held any more.
        TypeError: There is no lease, or a lease is a permit of a semaphore.
        sqlalchemy.exc.SQLAlchemyError: The database has failed, or the session is in a transaction.
    """
    _seal(_own(session), leases)


@contextmanager
def transaction(
    session: Session | scoped_session[Session], *leases: Holder, check_lease: bool = False
) -> Iterator[Session]:
    """Run a block in a transaction that checks the leases first. It commits at the end.

    Args:
        session: The session. It must not be in a transaction.
        leases: One or more leases, or what `parse` of the HTTP guard returned.
        check_lease: Also ask the lock's engine. See `PostgresGuard.transaction`.

    Yields:
        The session.

    Raises:
        StaleToken: The guard has seen a higher token. The lease is LOST, and nothing is written.
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
    session = _own(session)
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
        StaleToken: The guard has seen a higher token. The lease is LOST, and nothing is written.
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
        StaleToken: The guard has seen a higher token. The lease is LOST, and nothing is written.
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


def _own(session: Session | scoped_session[Session]) -> Session:
    """Return the session itself, or that of this thread if it is a `scoped_session`."""
    return session() if isinstance(session, scoped_session) else session


def _seal(session: Session, leases: tuple[Holder, ...]) -> None:
    bind = session.get_bind()
    database = database_of(bind.dialect)
    if isinstance(bind, Connection) and bind.in_transaction():
        raise InvalidRequestError(
            "the session is bound to a connection that is in a transaction, and its rollback would "
            "remove the seal. Seal before that transaction begins"
        )
    try:
        with session.begin():
            connection = session.connection(execution_options=database.options())
            refuse_shared(connection)
            database.seal(connection, leases)
    except DBAPIError as error:
        meant = database.refusal(error, leases)
        if meant is not None:
            raise meant from error
        raise
    ensure_held(leases)


def _begin(session: Session, leases: tuple[Holder, ...], *, check_lease: bool) -> Block:
    block = Block(session, database_of(session.get_bind().dialect))
    try:
        connection = session.connection()
        block.enter(connection)
        block.database.enter(connection, leases, check=check_lease)
        ensure_held(leases)
        block.bolt(connection)
    except BaseException as error:
        _fail(session, leases, block, error)
        raise
    return block


def _commit(session: Session, leases: tuple[Holder, ...], block: Block) -> None:
    try:
        if session.get_transaction() is not block.transaction or not block.transaction.is_active:
            raise InvalidRequestError(
                "the block has ended the guarded transaction, so its later statements were not "
                "guarded"
            )
        session.flush()
        block.database.finish(session, leases)
        block.open()
        block.transaction.__exit__(None, None, None)
    except BaseException as error:  # a flush that failed, or a trigger that refused
        _fail(session, leases, block, error)
        raise


def _fail(
    session: Session,
    leases: tuple[Holder, ...],
    block: Block,
    error: BaseException,
) -> None:
    """Roll back. If the error means that a lease is lost, raise that instead."""
    try:
        block.forget()
        block.open()
        if block.undermined:  # there is no transaction left that could be rolled back
            session.invalidate()
        block.transaction.__exit__(type(error), error, error.__traceback__)
        session.rollback()
    except DBAPIError:  # the connection is lost: then the server has rolled back by itself
        session.invalidate()
    if not isinstance(error, DBAPIError):
        return
    meant = block.database.refusal(error, leases)
    if meant is None and block.database.again(error):
        try:  # the mark shows whether the lease is stale. If it is not, the caller may try again
            _seal(session, leases)
        except LockfastError as again:
            meant = again
        except DBAPIError:
            pass
    if meant is not None:
        raise meant from error
