"""MariaDB and MySQL for the guard of Django, over mysqlclient, or PyMySQL in its place."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any

from django.db import NotSupportedError
from django.db.utils import Error

from lockfast.errors import LockfastError
from lockfast.guards.mark import Holder
from lockfast.guards.mysql.bolt import Bolt, bolted, refuse_wrapped
from lockfast.guards.mysql.statements import FORGET, LEAVE, again, entering, raising, refusal


class MysqlDatabase:
    """The procedures of the schema `lockfast_guard`."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401  # Django's
        """Take Django's connection."""
        self.connection = connection

    def seal(self, leases: Sequence[Holder]) -> None:
        """Call `raise_v1`. Django commits it."""
        self._run(raising(leases))

    def enter(self, leases: Sequence[Holder], *, check_lease: bool) -> None:
        """Call `enter_v1`."""
        if check_lease:
            raise NotSupportedError(
                "check_lease needs the lock and the data in one PostgreSQL database"
            )
        refuse_wrapped(self.connection.connection)
        self._run(entering(leases, within=bolted(self.connection.connection)))

    def bolt(self, leases: Sequence[Holder]) -> MysqlBolt:
        """Return the bolt of a block that was just entered, closed."""
        del leases
        return MysqlBolt(self.connection)

    def refusal(self, error: Error, leases: Sequence[Holder]) -> LockfastError | None:
        """Read the message of the server."""
        return None if error.__cause__ is None else refusal(error.__cause__, leases)

    def again(self, error: Error) -> bool:
        """Return whether the transaction has collided with another one."""
        return error.__cause__ is not None and again(error.__cause__)

    def _run(self, statement: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)


class MysqlBolt:
    """The bolt of the driver's connection, and the test of the server at the end."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401  # Django's
        """Close the bolt."""
        self._connection = connection
        self._driver = connection.connection
        self._within = bolted(self._driver)
        self._bolt = Bolt(self._driver)

    def check(self) -> None:
        """Raise `Unguarded` if the transaction is not the one that was entered.

        Only the outermost block has a savepoint, so the server is asked at its end.
        """
        self._bolt.check()
        if not self._within:
            self._bolt.open()
            with self._connection.cursor() as cursor:
                cursor.execute(LEAVE)

    def open(self, *, ended: bool) -> None:
        """Open the bolt. After an error, clear the session variables and the timeouts."""
        self._bolt.open()
        if not ended and not self._within:
            # Not by Django's cursor, which refuses statements after an error.
            with suppress(self._driver.Error), closing(self._driver.cursor()) as cursor:
                cursor.execute(FORGET)
