"""The PostgreSQL guard for threads and asyncio, over psycopg 3."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from types import TracebackType
from typing import Generic, TypeVar

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor

from lockfast.guards.mark import Holder
from lockfast.guards.postgres.passage import Passage, exchange
from lockfast.runtime.drive import drive

Row = TypeVar("Row")


class ThreadLine(Generic[Row]):
    """A connection that blocks."""

    def __init__(self, connection: Connection[Row]) -> None:
        """Take the connection, and open a cursor on it."""
        self.connection = connection
        self.cursor = connection.cursor()

    async def run(self, *statements: str) -> None:
        """Send statements in one message, and wait for their results."""
        with self.connection.lock:
            self.connection.wait(exchange(self.connection.pgconn, statements))

    async def rollback(self) -> None:
        """Roll back."""
        self.connection.rollback()

    async def set_autocommit(self, on: bool) -> None:  # noqa: FBT001  # psycopg's
        """Set psycopg's autocommit."""
        self.connection.autocommit = on


class AioLine(Generic[Row]):
    """A connection that suspends."""

    def __init__(self, connection: AsyncConnection[Row]) -> None:
        """Take the connection, and open a cursor on it."""
        self.connection = connection
        self.cursor = connection.cursor()

    async def run(self, *statements: str) -> None:
        """Send statements in one message, and wait for their results."""
        async with self.connection.lock:
            await self.connection.wait(exchange(self.connection.pgconn, statements))

    async def rollback(self) -> None:
        """Roll back."""
        await self.connection.rollback()

    async def set_autocommit(self, on: bool) -> None:  # noqa: FBT001  # psycopg's
        """Set psycopg's autocommit."""
        await self.connection.set_autocommit(on)


class Transaction(Generic[Row]):
    """The context manager of one guarded transaction.

    It is a class, because a generator with `contextmanager` costs more than the check itself.
    """

    def __init__(
        self,
        source: AbstractContextManager[Connection[Row]],
        leases: tuple[Holder, ...],
        *,
        check_lease: bool,
    ) -> None:
        """Take the source of the connection and the leases. Nothing is sent."""
        self._source = source
        self._leases = leases
        self._check_lease = check_lease

    def __enter__(self) -> Cursor[Row]:
        """Begin the transaction, check the leases, and return a cursor."""
        line = ThreadLine(self._source.__enter__())
        try:
            self._passage = Passage(line, self._leases)
            drive(self._passage.begin(check_lease=self._check_lease))
        except BaseException as error:
            self._source.__exit__(type(error), error, error.__traceback__)
            raise
        return line.cursor

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or roll back if the block has raised."""
        try:
            drive(self._passage.end(error))
        finally:
            self._source.__exit__(kind, error, trace)


class AsyncTransaction(Generic[Row]):
    """The asynchronous context manager of one guarded transaction."""

    def __init__(
        self,
        source: AbstractAsyncContextManager[AsyncConnection[Row]],
        leases: tuple[Holder, ...],
        *,
        check_lease: bool,
    ) -> None:
        """Take the source of the connection and the leases. Nothing is sent."""
        self._source = source
        self._leases = leases
        self._check_lease = check_lease

    async def __aenter__(self) -> AsyncCursor[Row]:
        """Begin the transaction, check the leases, and return a cursor."""
        line = AioLine(await self._source.__aenter__())
        try:
            self._passage = Passage(line, self._leases)
            await self._passage.begin(check_lease=self._check_lease)
        except BaseException as error:
            await self._source.__aexit__(type(error), error, error.__traceback__)
            raise
        return line.cursor

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or roll back if the block has raised."""
        try:
            await self._passage.end(error)
        finally:
            await self._source.__aexit__(kind, error, trace)


class PostgresGuard(Generic[Row]):
    """Rejects writes to PostgreSQL by a process that has lost its lock, in the same transaction.

    Args:
        connection: A psycopg connection, or a function that returns a context manager for one, such
            as `pool.connection` of psycopg's pool.

    Example:
        ::

            with psycopg.connect("postgresql://localhost/app") as connection:
                guard = PostgresGuard(connection)
                with client.lock("invoice:42", ttl=10) as lease:
                    guard.seal(lease)
                    with guard.transaction(lease) as cursor:
                        cursor.execute("UPDATE invoices SET paid = true WHERE id = 42")
    """

    def __init__(
        self,
        connection: Connection[Row] | Callable[[], AbstractContextManager[Connection[Row]]],
    ) -> None:
        """Take a connection or its source. Nothing is sent."""
        self._source = connection

    def seal(self, *leases: Holder) -> None:
        """Store the token of each lease, so that the database rejects earlier holders from now on.

        Call it right after acquiring, before the first read. Otherwise a stale holder may still
        write between your read and your write. It commits a transaction of its own.

        Args:
            leases: One or more leases, or what `parse` of the HTTP guard returned.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST.
            LeaseLost: A lease is not held any more.
            TypeError: There is no lease, or a lease is a permit of a semaphore.
            psycopg.Error: The database has failed, or the connection is in a transaction.
        """
        with self._connection() as connection:
            drive(Passage(ThreadLine(connection), leases).seal())

    def transaction(
        self, *leases: Holder, check_lease: bool = False
    ) -> AbstractContextManager[Cursor[Row]]:
        """Return a context manager for a transaction that checks the leases first.

        The transaction is committed at the end of the block, and rolled back if the block raises.
        The `with` statement raises the exceptions below, not this call.

        Args:
            leases: One or more leases, or what `parse` of the HTTP guard returned.
            check_lease: Also ask the lock's engine, which must be in the same database. It then
                cannot grant the lock to another holder before this transaction has ended.

        Returns:
            A context manager. `with` returns a cursor.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST, and nothing is
                written.
            LeaseLost: A lease is not held any more.
            Unguarded: The block has ended the transaction and sent another statement, or a trigger
                guards a row by another lock.
            TypeError: There is no lease, or a lease is a permit of a semaphore.
            psycopg.Error: The database has failed, the connection is in a transaction already, or
                the block has ended the guarded one.
        """
        return Transaction(self._connection(), leases, check_lease=check_lease)

    def _connection(self) -> AbstractContextManager[Connection[Row]]:
        source = self._source
        return nullcontext(source) if isinstance(source, Connection) else source()


class AsyncPostgresGuard(Generic[Row]):
    """Rejects writes to PostgreSQL by a process that has lost its lock. For asyncio.

    Args:
        connection: An `AsyncConnection` of psycopg, or a function that returns an asynchronous
            context manager for one, such as `pool.connection` of psycopg's `AsyncConnectionPool`.

    Example:
        ::

            url = "postgresql://localhost/app"
            async with await psycopg.AsyncConnection.connect(url) as connection:
                guard = AsyncPostgresGuard(connection)
                async with client.lock("invoice:42", ttl=10) as lease:
                    await guard.seal(lease)
                    async with guard.transaction(lease) as cursor:
                        await cursor.execute("UPDATE invoices SET paid = true WHERE id = 42")
    """

    def __init__(
        self,
        connection: AsyncConnection[Row]
        | Callable[[], AbstractAsyncContextManager[AsyncConnection[Row]]],
    ) -> None:
        """Take a connection or its source. Nothing is sent."""
        self._source = connection

    async def seal(self, *leases: Holder) -> None:
        """Store the token of each lease, before the first read. See `PostgresGuard.seal`.

        Args:
            leases: One or more leases, or what `parse` of the HTTP guard returned.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST.
            LeaseLost: A lease is not held any more.
            TypeError: There is no lease, or a lease is a permit of a semaphore.
            psycopg.Error: The database has failed, or the connection is in a transaction.
        """
        async with self._connection() as connection:
            await Passage(AioLine(connection), leases).seal()

    def transaction(
        self, *leases: Holder, check_lease: bool = False
    ) -> AbstractAsyncContextManager[AsyncCursor[Row]]:
        """Return an asynchronous context manager for a transaction that checks the leases first.

        See `PostgresGuard.transaction`, which raises the same exceptions.

        Args:
            leases: One or more leases, or what `parse` of the HTTP guard returned.
            check_lease: Also ask the lock's engine, which must be in the same database.

        Returns:
            A context manager. `async with` returns a cursor.
        """
        return AsyncTransaction(self._connection(), leases, check_lease=check_lease)

    def _connection(self) -> AbstractAsyncContextManager[AsyncConnection[Row]]:
        source = self._source
        return nullcontext(source) if isinstance(source, AsyncConnection) else source()
