"""The interface of a database to the guard, and which databases it works with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Protocol

from sqlalchemy import Connection, Dialect
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.orm import Session

from lockfast.errors import LockfastError
from lockfast.guards.mark import Holder


class Database(Protocol):
    """How a kind of database checks leases. An implementation keeps no state."""

    def install(self, connection: Connection) -> None:
        """Create what the guard needs in the database."""

    def options(self) -> dict[str, object]:
        """Return the execution options of a transaction that only seals."""
        ...

    def seal(self, connection: Connection, leases: Sequence[Holder]) -> None:
        """Raise the marks, in a transaction of its own."""

    def enter(self, connection: Connection, leases: Sequence[Holder], *, check: bool) -> None:
        """Check the leases, as the first statement of a transaction that has begun.

        `check`: also check in the same database that the engine still has the leases.
        """

    def refuse_next(self, connection: Connection, statement: str, *, ended: bool) -> None:
        """Raise `Unguarded` if the statement would not be part of the guarded transaction.

        `ended`: SQLAlchemy has ended that transaction. It does not know of a COMMIT as text.
        """

    def done(self, connection: Connection, statement: str) -> None:
        """Note that a statement of the block has succeeded."""

    def finish(self, session: Session, leases: Sequence[Holder]) -> None:
        """Raise `Unguarded` before the commit, unless the transaction is the one that was begun."""

    def forget(self, connection: Connection) -> None:
        """Clear what `enter` has set on the connection, unless a rollback does."""

    def refusal(self, error: DBAPIError, leases: Sequence[Holder]) -> LockfastError | None:
        """Return what an error of the database means for the leases. None: something else."""

    def again(self, error: DBAPIError) -> bool:
        """Return whether the error may be due to a later holder, whose mark would show it."""
        ...


_PLACES = {
    "mariadb": "mysql:MysqlDatabase",
    "mysql": "mysql:MysqlDatabase",
    "postgresql": "postgres:PostgresDatabase",
    "sqlite": "sqlite:SqliteDatabase",
}
"""Where each database is, by the names of SQLAlchemy's dialects. Imported when it is used, because
a program with MariaDB need not have psycopg."""


def database_of(dialect: Dialect) -> Database:
    """Return how to check leases in the database of this dialect."""
    if dialect.name not in _PLACES:
        known = ", ".join(_PLACES)
        raise InvalidRequestError(f"lockfast can guard {known}, but not {dialect.name}")
    return _imported(dialect.name)


@cache
def _imported(name: str) -> Database:
    module, _, cls = _PLACES[name].partition(":")
    made: Callable[[], Database] = getattr(import_module(f"{__package__}.{module}"), cls)
    return made()
