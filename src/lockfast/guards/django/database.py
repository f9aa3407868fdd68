"""The interface of a database to the guard for Django, and which databases it works with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol

from django.db import NotSupportedError, transaction
from django.db.utils import Error

from lockfast.errors import LockfastError
from lockfast.guards.mark import Holder


class Bolt(Protocol):
    """Keeps a block in the transaction that was checked."""

    def check(self) -> None:
        """Raise `Unguarded` at the end of the block, if the transaction is another one."""

    def open(self, *, ended: bool) -> None:
        """Let the connection go. `ended`: the block has ended well, and `check` has passed."""


class Database(Protocol):
    """How a kind of database checks leases, on one connection of Django's."""

    @property
    def connection(self) -> Any:  # noqa: ANN401  # Django's
        """The connection."""

    def seal(self, leases: Sequence[Holder]) -> None:
        """Raise the marks, in a transaction that commits them."""

    def enter(self, leases: Sequence[Holder], *, check_lease: bool) -> None:
        """Check the leases in the present transaction."""

    def bolt(self, leases: Sequence[Holder]) -> Bolt:
        """Return the bolt of a block that was just entered, closed."""
        ...

    def refusal(self, error: Error, leases: Sequence[Holder]) -> LockfastError | None:
        """Return what an error of the database means for the leases. None: something else."""

    def again(self, error: Error) -> bool:
        """Return whether the error may be due to a later holder, whose mark would show it."""
        ...


_PLACES = {"mysql": "mysql:MysqlDatabase", "postgresql": "postgres:PostgresDatabase"}
"""Where each database is, by Django's names of their vendors. Imported when it is used, because a
project with MariaDB need not have psycopg. For Django, MariaDB is a `mysql`."""


def database_of(using: str) -> Database:
    """Return how to check leases in the database of this alias."""
    connection: Any = transaction.get_connection(using)
    if connection.vendor not in _PLACES:
        known = ", ".join(_PLACES)
        raise NotSupportedError(f"lockfast can guard {known}, but not {connection.vendor}")
    module, _, cls = _PLACES[connection.vendor].partition(":")
    made: Callable[[Any], Database] = getattr(import_module(f"{__package__}.{module}"), cls)
    return made(connection)
