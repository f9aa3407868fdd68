"""PostgreSQL for the guard of Django, over psycopg 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.utils import Error

from lockfast.errors import LockfastError
from lockfast.guards.mark import Holder
from lockfast.guards.postgres.bolt import Bolt, bolted, refuse
from lockfast.guards.postgres.statements import (
    AGAIN,
    BLOCK,
    READ_COMMITTED,
    block_of,
    entering,
    refusal,
    sealing,
)


class PostgresDatabase:
    """The functions of the schema `lockfast_guard`."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401  # Django's
        """Take Django's connection."""
        self.connection = connection

    def seal(self, leases: Sequence[Holder]) -> None:
        """Call `seal_v1` for each lease."""
        self._run([READ_COMMITTED, *sealing(leases)])

    def enter(self, leases: Sequence[Holder], *, check_lease: bool) -> None:
        """Call `enter_v1` for each lease."""
        within = bolted(self.connection.connection)
        self._run(entering(leases, check_lease=check_lease, within=within))

    def bolt(self, leases: Sequence[Holder]) -> PostgresBolt:
        """Return the bolt of a block that was just entered, closed."""
        return PostgresBolt(self.connection, block_of(leases))

    def refusal(self, error: Error, leases: Sequence[Holder]) -> LockfastError | None:
        """Read the SQLSTATE."""
        cause: Any = error.__cause__
        return refusal(cause, leases) if hasattr(cause, "sqlstate") else None

    def again(self, error: Error) -> bool:
        """Return whether the transaction has collided with another one."""
        return getattr(error.__cause__, "sqlstate", None) in AGAIN

    def _run(self, statements: list[str]) -> None:
        with self.connection.cursor() as cursor:
            for each in statements:
                cursor.execute(each)


class PostgresBolt:
    """The bolt of psycopg's connection, and the test of the server at the end."""

    def __init__(self, connection: Any, block: str) -> None:  # noqa: ANN401  # Django's
        """Close the bolt."""
        self._connection = connection
        self._bolt = Bolt(connection.connection, block)

    def check(self) -> None:
        """Raise `Unguarded` if the transaction has failed, or is another one."""
        if self._bolt.broken or self._block() != self._bolt.block:
            refuse()

    def open(self, *, ended: bool) -> None:
        """Open the bolt. The settings of the transaction end with it."""
        del ended
        self._bolt.open()

    def _block(self) -> object:
        """Return for which block the present transaction was begun, from the server."""
        with self._connection.cursor() as cursor:
            cursor.execute(BLOCK)
            return cursor.fetchone()[0]
