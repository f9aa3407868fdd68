"""The guard of a PostgreSQL database, for threads and asyncio, over psycopg 3."""

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
        """Take a cursor on it."""
        self.connection = connection
        self.cursor = connection.cursor()

    async def run(self, *statements: str) -> None:
        """Run statements."""
        with self.connection.lock:
            self.connection.wait(exchange(self.connection.pgconn, statements))

    async def rollback(self) -> None:
        """Roll back."""
        self.connection.rollback()

    async def set_autocommit(self, on: bool) -> None:  # noqa: FBT001  # psycopg's
        """Set it."""
        self.connection.autocommit = on


class AioLine(Generic[Row]):
    """A connection that suspends."""

    def __init__(self, connection: AsyncConnection[Row]) -> None:
        """Take a cursor on it."""
        self.connection = connection
        self.cursor = connection.cursor()

    async def run(self, *statements: str) -> None:
        """Run statements."""
        async with self.connection.lock:
            await self.connection.wait(exchange(self.connection.pgconn, statements))

    async def rollback(self) -> None:
        """Roll back."""
        await self.connection.rollback()

    async def set_autocommit(self, on: bool) -> None:  # noqa: FBT001  # psycopg's
        """Set it."""
        await self.connection.set_autocommit(on)


class Transaction(Generic[Row]):
    """One guarded transaction. A class: a generator costs more than the check itself."""

    def __init__(
        self,
        source: AbstractContextManager[Connection[Row]],
        leases: tuple[Holder, ...],
        *,
        check_lease: bool,
    ) -> None:
        """Nothing is sent yet."""
        self._source = source
        self._leases = leases
        self._check_lease = check_lease

    def __enter__(self) -> Cursor[Row]:
        """Begin, by the check."""
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
        """Commit, or roll back."""
        try:
            drive(self._passage.end(error))
        finally:
            self._source.__exit__(kind, error, trace)


class AsyncTransaction(Generic[Row]):
    """The same for asyncio."""

    def __init__(
        self,
        source: AbstractAsyncContextManager[AsyncConnection[Row]],
        leases: tuple[Holder, ...],
        *,
        check_lease: bool,
    ) -> None:
        """Nothing is sent yet."""
        self._source = source
        self._leases = leases
        self._check_lease = check_lease

    async def __aenter__(self) -> AsyncCursor[Row]:
        """Begin, by the check."""
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
        """Commit, or roll back."""
        try:
            await self._passage.end(error)
        finally:
            await self._source.__aexit__(kind, error, trace)


class PostgresGuard(Generic[Row]):
    """Guards what is written through it: a stale lease is refused, in the write's transaction.

    `connection`: a psycopg connection, or whatever gives one for a while, such as
    `pool.connection` of psycopg's pool.
    """

    def __init__(
        self,
        connection: Connection[Row] | Callable[[], AbstractContextManager[Connection[Row]]],
    ) -> None:
        """Nothing is sent yet."""
        self._source = connection

    def seal(self, *leases: Holder) -> None:
        """Raise the mark: do it right after the grant, before the first read.

        Without it, a stale write may still land between what you read and what you write.
        """
        with self._connection() as connection:
            drive(Passage(ThreadLine(connection), leases).seal())

    def transaction(
        self, *leases: Holder, check_lease: bool = False
    ) -> AbstractContextManager[Cursor[Row]]:
        """Begin a transaction that only a current lease gets into; commit it at the end.

        Raises `StaleToken`, and the lease is LOST, if a later holder has been there.
        `check_lease`: where the lock's engine is this same database, ask also it, and keep it from
        giving the lock away before this transaction has ended.
        """
        return Transaction(self._connection(), leases, check_lease=check_lease)

    def _connection(self) -> AbstractContextManager[Connection[Row]]:
        source = self._source
        return nullcontext(source) if isinstance(source, Connection) else source()


class AsyncPostgresGuard(Generic[Row]):
    """The same for asyncio, over `AsyncConnection`."""

    def __init__(
        self,
        connection: AsyncConnection[Row]
        | Callable[[], AbstractAsyncContextManager[AsyncConnection[Row]]],
    ) -> None:
        """Nothing is sent yet."""
        self._source = connection

    async def seal(self, *leases: Holder) -> None:
        """Raise the mark: do it right after the grant, before the first read."""
        async with self._connection() as connection:
            await Passage(AioLine(connection), leases).seal()

    def transaction(
        self, *leases: Holder, check_lease: bool = False
    ) -> AbstractAsyncContextManager[AsyncCursor[Row]]:
        """Begin a transaction that only a current lease gets into; commit it at the end."""
        return AsyncTransaction(self._connection(), leases, check_lease=check_lease)

    def _connection(self) -> AbstractAsyncContextManager[AsyncConnection[Row]]:
        source = self._source
        return nullcontext(source) if isinstance(source, AsyncConnection) else source()
