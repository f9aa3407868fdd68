"""The guarded transaction and the seal on a psycopg connection, for threads and asyncio."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import psycopg
from psycopg import BaseConnection, IsolationLevel, generators
from psycopg.abc import PQGen
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn

from lockfast.errors import LockfastError, Unguarded
from lockfast.guards.leases import ensure_held
from lockfast.guards.mark import Holder
from lockfast.guards.postgres.bolt import ENDED, Bolt
from lockfast.guards.postgres.statements import (
    AGAIN,
    READ_COMMITTED,
    block_of,
    entering,
    refusal,
    sealing,
    still,
)


class Line(Protocol):
    """A connection with a cursor, for threads or for asyncio."""

    @property
    def connection(self) -> BaseConnection[Any]:
        """The connection."""

    async def run(self, *statements: str) -> None:
        """Send statements by `exchange`."""

    async def rollback(self) -> None:
        """Roll back."""

    async def set_autocommit(self, on: bool) -> None:  # noqa: FBT001  # psycopg's
        """Set psycopg's autocommit. This sends nothing."""


class Passage:
    """One guarded transaction, or one seal. It restores the connection's autocommit at the end."""

    def __init__(self, line: Line, leases: Sequence[Holder]) -> None:
        """Take the connection and the leases. Nothing is sent."""
        self._line = line
        self._leases = leases
        self._autocommit = line.connection.autocommit
        self._bolt: Bolt | None = None

    async def seal(self) -> None:
        """Raise the marks in a transaction of its own. When it returns, the holder may read."""
        if self._line.connection.pgconn.transaction_status != TransactionStatus.IDLE:
            raise within("seal() commits by itself, so it comes before your transaction")
        try:
            await self._line.run(READ_COMMITTED, *sealing(self._leases))
            ensure_held(self._leases)
        except BaseException as error:
            await self._fail(error)
            raise

    async def begin(self, *, check_lease: bool) -> None:
        """Begin the transaction, and check the leases in it."""
        connection = self._line.connection
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            raise within("transaction() begins one of its own")
        if self._autocommit:  # or each statement after a commit in the block would commit itself
            await self._line.set_autocommit(False)
        try:
            # The check is in the same message as the BEGIN, so it costs no round trip.
            calls = entering(self._leases, check_lease=check_lease)
            await self._line.run(beginning(connection), *calls)
            self._bolt = Bolt(connection, block_of(self._leases))
            ensure_held(self._leases)
        except BaseException as error:
            await self.end(error)
            raise

    async def end(self, error: BaseException | None) -> None:
        """Commit, or roll back after an error. If it means that a lease is lost, raise that."""
        ended = False
        if self._bolt is not None:
            ended = self._bolt.broken
            self._bolt.open()
        try:
            if error is not None:
                await self._fail(error)
                return
            if ended:
                raise psycopg.ProgrammingError(ENDED)
            await self._commit()
        except BaseException as failure:
            if error is None:  # the commit failed, perhaps by a trigger, or was cancelled
                await self._fail(failure)
            raise
        finally:
            await self._restore()

    async def _commit(self) -> None:
        """Commit the transaction that was checked, and no other.

        The test is in the same message as the COMMIT, so it costs no round trip.
        """
        try:
            await self._line.run(still(block_of(self._leases)), "COMMIT")
        except psycopg.errors.UndefinedObject as error:
            status = self._line.connection.pgconn.transaction_status
            if status != TransactionStatus.INERROR:  # an error of the COMMIT itself, not of `still`
                raise
            await self._fail(error)
            raise Unguarded(ENDED) from None

    async def _fail(self, error: BaseException) -> None:
        """Roll back. If the error means that a lease is lost, raise that instead."""
        connection = self._line.connection
        if not connection.closed and connection.pgconn.transaction_status != TransactionStatus.IDLE:
            with suppress(psycopg.Error):  # the connection is lost: the server has rolled back
                await self._line.rollback()
        if not isinstance(error, psycopg.Error):
            return
        meant = refusal(error, self._leases)
        if meant is None and error.sqlstate in AGAIN:
            meant = await self._look_again()
        if meant is not None:
            raise meant from error

    async def _look_again(self) -> LockfastError | None:
        """Return the error if the mark shows that a serialization failure was due to a stale lease.

        If it was not, return None: the caller may try again.
        """
        try:
            await self._line.run(READ_COMMITTED, *sealing(self._leases))
        except psycopg.Error as error:
            return refusal(error, self._leases)
        return None

    async def _restore(self) -> None:
        connection = self._line.connection
        if self._autocommit and not connection.closed:
            await self._line.set_autocommit(True)


def within(why: str) -> psycopg.ProgrammingError:
    """Return the error for a connection that is already in a transaction."""
    return psycopg.ProgrammingError(
        f"the connection is in a transaction already, and {why}: commit or roll back first"
    )


def exchange(pgconn: PGconn, statements: Sequence[str]) -> PQGen[None]:
    """Send statements in one message, and raise the first error among their results.

    It does not use psycopg's cursors. They do not know that these statements return no rows and
    need not be prepared, and their bookkeeping would cost as much as the check itself.
    """
    pgconn.send_query("; ".join(statements).encode())
    for result in (yield from generators.execute(pgconn)):
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result)


def beginning(connection: BaseConnection[Any]) -> str:
    """Return the BEGIN that psycopg would send on this connection."""
    words = ["BEGIN"]
    if connection.isolation_level is not None:
        level = IsolationLevel(connection.isolation_level).name.replace("_", " ")
        words.append(f"ISOLATION LEVEL {level}")
    if connection.read_only is not None:
        words.append("READ ONLY" if connection.read_only else "READ WRITE")
    if connection.deferrable is not None:
        words.append("DEFERRABLE" if connection.deferrable else "NOT DEFERRABLE")
    return " ".join(words)
