"""The interface of a database to the guard, and which databases it works with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from lockfast.errors import LockfastError
from lockfast.guards.mark import Holder


class Database(Protocol):
    """How a kind of database checks leases. An implementation keeps no state."""

    def options(self) -> dict[str, object]:
        """Return the execution options of a transaction that only seals."""
        ...

    def seal(self, connection: Connection, leases: Sequence[Holder]) -> None:
        """Raise the marks, in a transaction of its own."""

    def enter(self, connection: Connection, leases: Sequence[Holder], *, check: bool) -> None:
        """Check the leases, as the first statement of a transaction that has begun.

        `check`: also check in the same database that the engine still has the leases.
        """

    def refuse_next(self, connection: Connection, *, ended: bool) -> None:
        """Raise `Unguarded` if the next statement would not be part of the guarded transaction.

        `ended`: SQLAlchemy has ended that transaction. It does not know of a COMMIT as text.
        """

    def finish(self, session: Session, leases: Sequence[Holder]) -> None:
        """Raise `Unguarded` before the commit, unless the transaction is the one that was begun."""

    def refusal(self, error: DBAPIError, leases: Sequence[Holder]) -> LockfastError | None:
        """Return what an error of the database means for the leases. None: something else."""

    def again(self, error: DBAPIError) -> bool:
        """Return whether the error may be due to a later holder, whose mark would show it."""
        ...
