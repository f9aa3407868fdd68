"""The guard for Django: `guarded`, a form of `atomic`, and a mixin for models.

It works on PostgreSQL (psycopg 3), and on MariaDB and MySQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db import DEFAULT_DB_ALIAS, router, transaction
from django.db.utils import Error

from lockfast.errors import LockfastError, Unguarded
from lockfast.guards.django.database import Database, database_of
from lockfast.guards.leases import ensure_held
from lockfast.guards.mark import Holder

_open: ContextVar[frozenset[tuple[str, str]]] = ContextVar("lockfast_guarded", default=frozenset())
"""The open `guarded` blocks of this thread or task: pairs of a database alias and a lock's name."""


def seal(*leases: Holder, using: str = DEFAULT_DB_ALIAS) -> None:
    """Store the token of each lease, so that the database rejects earlier holders from now on.

    Call it right after acquiring, before the first read. It commits a transaction of its own.

    Args:
        leases: One or more leases, or what `parse` of the HTTP guard returned.
        using: The alias of the database.

    Raises:
        StaleToken: The guard has seen a higher token. The lease is LOST.
        LeaseLost: A lease is not held any more.
        RuntimeError: It was called within `atomic`, where nothing can be committed.
        TypeError: There is no lease, or a lease is a permit of a semaphore.
        django.db.Error: The database has failed.
    """
    database = database_of(using)
    try:
        with transaction.atomic(using, durable=True):
            database.seal(leases)
    except Error as error:
        _explain(database, error, leases)
        raise
    ensure_held(leases)


@contextmanager
def guarded(
    *leases: Holder,
    using: str = DEFAULT_DB_ALIAS,
    durable: bool = False,
    check_lease: bool = False,
) -> Iterator[None]:
    """Run a block in `transaction.atomic`, which checks the leases first.

    Within another `atomic` it is a savepoint, as `atomic` is. If the database rejects the outer
    commit, the outer block raises the error.

    Args:
        leases: One or more leases, or what `parse` of the HTTP guard returned.
        using: The alias of the database, as for `transaction.atomic`.
        durable: As for `transaction.atomic`.
        check_lease: Also ask the lock's engine, on PostgreSQL. See `PostgresGuard.transaction`.

    Yields:
        None.

    Raises:
        StaleToken: The guard has seen a higher token. The lease is LOST, and nothing is written.
        LeaseLost: A lease is not held any more.
        Unguarded: The block has ended the transaction, or a trigger guards a row by another lock.
        TypeError: There is no lease, or a lease is a permit of a semaphore.
        django.db.Error: The database has failed, or there is no guard for it.

    Example:
        ::

            with client.lock("invoice:42", ttl=10) as lease:
                seal(lease)
                with guarded(lease):
                    Invoice.objects.filter(pk=42).update(paid=True)
    """
    database = database_of(using)
    nested = transaction.get_connection(using).in_atomic_block
    allowed = _open.set(_open.get() | {(using, lease.name) for lease in leases})
    try:
        with transaction.atomic(using, durable=durable):
            database.enter(leases, check_lease=check_lease)
            yield from _bolted(database, leases)
    except Error as error:
        _explain(database, error, leases)
        if not nested and database.again(error):
            _look_again(error, leases, using)
        raise
    finally:
        _open.reset(allowed)


def _bolted(database: Database, leases: tuple[Holder, ...]) -> Iterator[None]:
    """Make sure that the whole block runs in the transaction that was checked."""
    bolt = database.bolt(leases)
    ended = False
    try:
        ensure_held(leases)
        yield
        if not database.connection.needs_rollback:
            bolt.check()
            ended = True
    finally:
        bolt.open(ended=ended)


def _explain(database: Database, error: Error, leases: tuple[Holder, ...]) -> None:
    """Raise the lockfast error for a refusal by the guard. Return if it is another error."""
    meant = database.refusal(error, leases)
    if meant is not None:
        raise meant from error


def _look_again(error: Error, leases: tuple[Holder, ...], using: str) -> None:
    """Raise `StaleToken` if the mark shows that a collision was due to a stale lease.

    If it was not, the caller may try again.
    """
    try:
        seal(*leases, using=using)
    except LockfastError as meant:
        raise meant from error
    except Error:
        return


class Fenced:
    """A mixin for models that may only be saved and deleted within `guarded` of their own lock.

    `save()` and `delete()` raise `Unguarded` elsewhere. This finds a forgotten `guarded` early. It
    does not see `update()`, `bulk_create()` and raw SQL. The trigger of the database's guard stops
    those too.

    Example:
        Name the lock, with fields of the model in braces::

            class Bill(Fenced, models.Model):
                fence = "bill:{pk}"
                paid = models.BooleanField(default=False)

                class Meta:
                    app_label = "shop"
    """

    fence: str
    """The name of the lock, with fields of the model in braces."""

    def lock_name(self) -> str:
        """Return the name of the lock that guards this row.

        Returns:
            `fence`, with the fields of this object filled in.
        """
        return self.fence.format_map(_Fields(self))

    def save(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # Django's
        """Save the object.

        Args:
            args: Those of the model's `save`.
            kwargs: Those of the model's `save`.

        Raises:
            Unguarded: This is not within `guarded` of the object's own lock.
        """
        self._demand(_using(args, kwargs, 2))
        super().save(*args, **kwargs)  # type: ignore[misc]  # the model's

    def delete(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # Django's
        """Delete the object.

        Args:
            args: Those of the model's `delete`.
            kwargs: Those of the model's `delete`.

        Returns:
            What the model's `delete` returns.

        Raises:
            Unguarded: This is not within `guarded` of the object's own lock.
        """
        self._demand(_using(args, kwargs, 0))
        return super().delete(*args, **kwargs)  # type: ignore[misc]  # the model's

    def _demand(self, using: str | None) -> None:
        alias = using or router.db_for_write(type(self), instance=self)  # type: ignore[arg-type]  # a model's mixin
        name = self.lock_name()
        if (alias, name) not in _open.get():
            raise Unguarded(
                f"a write to {self!r} needs the lock {name!r}: write within `with guarded(lease):`"
            )


def _using(args: tuple[Any, ...], kwargs: dict[str, Any], place: int) -> str | None:
    """Return the argument `using`, passed by keyword or, as older code does, by position."""
    using: str | None = args[place] if len(args) > place else kwargs.get("using")
    return using


class _Fields:
    """The fields of a model instance by name, for `str.format_map`."""

    def __init__(self, row: object) -> None:
        self._row = row

    def __getitem__(self, field: str) -> object:
        return getattr(self._row, field)
