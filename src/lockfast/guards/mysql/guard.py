"""The guard for MariaDB and MySQL, over PyMySQL. It imports no driver: it takes its connections."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from types import TracebackType
from typing import Any

from lockfast.errors import LockfastError
from lockfast.guards.leases import ensure_held
from lockfast.guards.mark import Holder
from lockfast.guards.mysql.bolt import Bolt, refuse_wrapped
from lockfast.guards.mysql.statements import (
    COMMIT,
    ROLLBACK,
    again,
    beginning,
    refusal,
    sealing,
)


class Transaction:
    """The context manager of one guarded transaction."""

    def __init__(self, source: AbstractContextManager[Any], leases: tuple[Holder, ...]) -> None:
        """Take the source of the connection and the leases. Nothing is sent."""
        self._source = source
        self._leases = leases
        self._connection: Any = None
        self._bolt: Bolt | None = None

    def __enter__(self) -> Any:  # noqa: ANN401  # the driver's cursor
        """Begin the transaction, check the leases, and return a cursor."""
        self._connection = self._source.__enter__()
        try:
            return self._begin()
        except BaseException as error:
            self._source.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or roll back if the block has raised."""
        try:
            self._end(error)
        finally:
            self._source.__exit__(kind, error, trace)

    def _begin(self) -> Any:  # noqa: ANN401  # the driver's cursor
        refuse_wrapped(self._connection)
        cursor = self._connection.cursor()
        run(self._connection, self._leases, beginning(self._leases))
        self._bolt = Bolt(self._connection)
        try:
            ensure_held(self._leases)
        except BaseException as error:
            self._end(error)
            raise
        return cursor

    def _end(self, error: BaseException | None) -> None:
        assert self._bolt is not None  # noqa: S101  # set by `_begin`
        self._bolt.open()
        if error is None:
            try:
                self._bolt.check()
                execute(self._connection, COMMIT)
            except BaseException as failure:  # such as LF004: it is another transaction
                self._roll_back(failure)
                raise
        else:
            self._roll_back(error)

    def _roll_back(self, error: BaseException) -> None:
        with suppress(self._connection.Error):  # it is lost: the server has rolled back
            execute(self._connection, ROLLBACK)
        explain(self._connection, self._leases, error)


class MysqlGuard:
    """Rejects writes to MariaDB or MySQL by a process that has lost its lock, in the same
    transaction.

    Args:
        connection: A connection of PyMySQL, or a function that returns a context manager for one.

    Example:
        ::

            guard = MysqlGuard(connection)
            with client.lock("invoice:42", ttl=10) as lease:
                guard.seal(lease)
                with guard.transaction(lease) as cursor:
                    cursor.execute("UPDATE invoices SET paid = true WHERE id = 42")
    """

    def __init__(self, connection: Any | Callable[[], AbstractContextManager[Any]]) -> None:  # noqa: ANN401  # the driver's
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
            Unguarded: The guard is not installed.
            TypeError: There is no lease, a lease is a permit of a semaphore, or the connection is
                not the driver's own.
            pymysql.Error: The database has failed, or the connection is in a transaction.
        """
        with self._connection() as connection:
            refuse_wrapped(connection)
            run(connection, leases, sealing(leases))
        ensure_held(leases)

    def transaction(self, *leases: Holder) -> AbstractContextManager[Any]:
        """Return a context manager for a transaction that checks the leases first.

        The transaction is committed at the end of the block, and rolled back if the block raises.
        The `with` statement raises the exceptions below, not this call.

        Args:
            leases: One or more leases, or what `parse` of the HTTP guard returned.

        Returns:
            A context manager. `with` returns a cursor of the connection.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST, and nothing is
                written.
            LeaseLost: A lease is not held any more.
            Unguarded: A statement would end the transaction or has ended it, a trigger guards a row
                by another lock, or the guard is not installed.
            TypeError: There is no lease, a lease is a permit of a semaphore, or the connection is
                not the driver's own.
            pymysql.Error: The database has failed, or the connection is in a transaction.
        """
        return Transaction(self._connection(), leases)

    def _connection(self) -> AbstractContextManager[Any]:
        source = self._source
        return nullcontext(source) if hasattr(source, "cursor") else source()


def execute(connection: Any, statement: str) -> None:  # noqa: ANN401  # the driver's
    """Run one of the guard's own statements."""
    with closing(connection.cursor()) as cursor:
        cursor.execute(statement)


def run(connection: Any, leases: tuple[Holder, ...], statement: str) -> None:  # noqa: ANN401  # the driver's
    """Run a statement that checks leases."""
    try:
        execute(connection, statement)
    except BaseException as error:
        explain(connection, leases, error)
        raise


def explain(connection: Any, leases: tuple[Holder, ...], error: BaseException) -> None:  # noqa: ANN401  # the driver's
    """Raise the lockfast error if the error means that a lease is lost or was not checked."""
    if not isinstance(error, connection.Error):
        return
    meant = refusal(error, leases)
    if meant is None and again(error):
        meant = _look_again(connection, leases)
    if meant is not None:
        raise meant from error


def _look_again(connection: Any, leases: tuple[Holder, ...]) -> LockfastError | None:  # noqa: ANN401  # the driver's
    """Return the error if the mark shows that a collision was due to a stale lease.

    If it was not, return None: the caller may try again.
    """
    try:
        execute(connection, sealing(leases))
    except connection.Error as error:
        return refusal(error, leases)
    return None
