"""How a lease passes through the guard of a PostgreSQL connection."""

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
from lockfast.guards.mark import Holder
from lockfast.guards.postgres.bolt import ENDED, Bolt
from lockfast.guards.postgres.statements import (
    AGAIN,
    READ_COMMITTED,
    block_of,
    ensure_held,
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
        """Run `exchange`."""

    async def rollback(self) -> None:
        """Roll back."""

    async def set_autocommit(self, on: bool) -> None:  # noqa: FBT001  # psycopg's
        """Let psycopg begin transactions by itself, or not. Nothing is sent."""


class Passage:
    """One transaction under some leases, or a seal. It leaves the connection as it found it."""

    def __init__(self, line: Line, leases: Sequence[Holder]) -> None:
        """Nothing is sent yet."""
        self._line = line
        self._leases = leases
        self._autocommit = line.connection.autocommit
        self._bolt: Bolt | None = None

    async def seal(self) -> None:
        """Raise the marks in a transaction of its own: from here on the holder may read."""
        if self._line.connection.pgconn.transaction_status != TransactionStatus.IDLE:
            raise within("seal() commits by itself, so it comes before your transaction")
        try:
            await self._line.run(READ_COMMITTED, *sealing(self._leases))
            ensure_held(self._leases)
        except BaseException as error:
            await self._fail(error)
            raise

    async def begin(self, *, check_lease: bool) -> None:
        """Open the transaction by the check."""
        connection = self._line.connection
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            raise within("transaction() begins one of its own")
        if self._autocommit:  # or what comes after a commit in the block would be its own
            await self._line.set_autocommit(False)
        try:
            # In the same message as the BEGIN: the check costs no round trip.
            calls = entering(self._leases, check_lease=check_lease)
            await self._line.run(beginning(connection), *calls)
            self._bolt = Bolt(connection, block_of(self._leases))
            ensure_held(self._leases)
        except BaseException as error:
            await self.end(error)
            raise

    async def end(self, error: BaseException | None) -> None:
        """Commit, or roll back and say what the error means."""
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
            if error is None:  # the commit was refused, perhaps by a trigger, or cancelled
                await self._fail(failure)
            raise
        finally:
            await self._restore()

    async def _commit(self) -> None:
        """Commit the transaction that was checked, and no other.

        In the same message as the COMMIT: to ask costs no round trip.
        """
        try:
            await self._line.run(still(block_of(self._leases)), "COMMIT")
        except psycopg.errors.UndefinedObject as error:
            status = self._line.connection.pgconn.transaction_status
            if status != TransactionStatus.INERROR:  # the COMMIT's own error has ended it
                raise
            await self._fail(error)
            raise Unguarded(ENDED) from None

    async def _fail(self, error: BaseException) -> None:
        """Roll back; raise what the error means, if it means that the lease is lost."""
        connection = self._line.connection
        if not connection.closed and connection.pgconn.transaction_status != TransactionStatus.IDLE:
            with suppress(psycopg.Error):  # cut off: then the server has rolled back by itself
                await self._line.rollback()
        if not isinstance(error, psycopg.Error):
            return
        meant = refusal(error, self._leases)
        if meant is None and error.sqlstate in AGAIN:
            meant = await self._look_again()
        if meant is not None:
            raise meant from error

    async def _look_again(self) -> LockfastError | None:
        """Ask the mark what a serialization failure was: without it the caller may try again."""
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
    """Say that a transaction has begun already."""
    return psycopg.ProgrammingError(
        f"the connection is in a transaction already, and {why}: commit or roll back first"
    )


def exchange(pgconn: PGconn, statements: Sequence[str]) -> PQGen[None]:
    """Send statements in one message, and read what came of them.

    Beneath psycopg's cursors: they do not know which statements have no rows and are never to be
    prepared, and their bookkeeping would cost as much as the check itself.
    """
    pgconn.send_query("; ".join(statements).encode())
    for result in (yield from generators.execute(pgconn)):
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result)


def beginning(connection: BaseConnection[Any]) -> str:
    """Write the BEGIN that psycopg would send on this connection."""
    words = ["BEGIN"]
    if connection.isolation_level is not None:
        level = IsolationLevel(connection.isolation_level).name.replace("_", " ")
        words.append(f"ISOLATION LEVEL {level}")
    if connection.read_only is not None:
        words.append("READ ONLY" if connection.read_only else "READ WRITE")
    if connection.deferrable is not None:
        words.append("DEFERRABLE" if connection.deferrable else "NOT DEFERRABLE")
    return " ".join(words)
