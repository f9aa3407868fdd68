"""The PostgreSQL guard for Django: `with guarded(lease):` around writes, and a mixin for models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db import DEFAULT_DB_ALIAS, router, transaction
from django.db.utils import Error

from lockfast.errors import LockfastError, Unguarded
from lockfast.guards.mark import Holder
from lockfast.guards.postgres.bolt import Bolt, bolted, refuse
from lockfast.guards.postgres.statements import (
    AGAIN,
    BLOCK,
    READ_COMMITTED,
    block_of,
    ensure_held,
    entering,
    refusal,
    sealing,
)

_open: ContextVar[frozenset[tuple[str, str]]] = ContextVar("lockfast_guarded", default=frozenset())
"""Under which names this thread or task may write, and in which database."""


def seal(*leases: Holder, using: str = DEFAULT_DB_ALIAS) -> None:
    """Raise the mark, in a transaction of its own: right after the grant, before the first read.

    Not within `atomic`, and for that reason durable: it has to be committed when it returns.
    """
    try:
        with transaction.atomic(using, durable=True):
            _run(using, [READ_COMMITTED, *sealing(leases)])
    except Error as error:
        _explain(error, leases)
        raise
    ensure_held(leases)


@contextmanager
def guarded(
    *leases: Holder,
    using: str = DEFAULT_DB_ALIAS,
    durable: bool = False,
    check_lease: bool = False,
) -> Iterator[None]:
    """`transaction.atomic`, begun by the check: only a current lease gets into it.

    Raises `StaleToken`, and the lease is LOST, if a later holder has been there. Within another
    `atomic` it is a savepoint, as `atomic` is, and what is refused at the outer commit is the
    outer block's error.
    """
    nested = transaction.get_connection(using).in_atomic_block
    allowed = _open.set(_open.get() | {(using, lease.name) for lease in leases})
    try:
        with transaction.atomic(using, durable=durable):
            within = bolted(transaction.get_connection(using).connection)
            _run(using, entering(leases, check_lease=check_lease, within=within))
            ensure_held(leases)
            yield from _bolted(using, block_of(leases))
    except Error as error:
        _explain(error, leases)
        if not nested and getattr(error.__cause__, "sqlstate", None) in AGAIN:
            _look_again(error, leases, using)
        raise
    finally:
        _open.reset(allowed)


def _bolted(using: str, name: str) -> Iterator[None]:
    """Have the block run in this transaction, and in no other."""
    connection = transaction.get_connection(using)
    bolt = Bolt(connection.connection, name)
    try:
        yield
        if not connection.needs_rollback and (bolt.broken or _block(using) != bolt.block):
            refuse()
    finally:
        bolt.open()


def _block(using: str) -> object:
    """Ask the server which block the transaction is for."""
    with transaction.get_connection(using).cursor() as cursor:
        cursor.execute(BLOCK)
        return cursor.fetchone()[0]


def _run(using: str, statements: list[str]) -> None:
    with transaction.get_connection(using).cursor() as cursor:
        for each in statements:
            cursor.execute(each)


def _explain(error: Error, leases: tuple[Holder, ...]) -> None:
    """Raise what a refusal means; return if it was something else."""
    cause: Any = error.__cause__
    meant = refusal(cause, leases) if hasattr(cause, "sqlstate") else None
    if meant is not None:
        raise meant from error


def _look_again(error: Error, leases: tuple[Holder, ...], using: str) -> None:
    """Ask the mark what a serialization failure was: without it the caller may try again."""
    try:
        seal(*leases, using=using)
    except LockfastError as meant:
        raise meant from error
    except Error:
        return


class Fenced:
    """A model that is saved and deleted only within `guarded` of its own lock.

    class Invoice(Fenced, models.Model):
        fence = "invoice:{pk}"

    It reminds the programmer, early. `update()`, `bulk_create()` and raw SQL do not pass here: the
    trigger of the PostgreSQL guard stops those too.
    """

    fence: str
    """The name of the lock, with fields in braces."""

    def lock_name(self) -> str:
        """Return the name of the lock that guards this row."""
        return self.fence.format_map(_Fields(self))

    def save(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # Django's
        """Save, within `guarded`."""
        self._demand(_using(args, kwargs, 2))
        super().save(*args, **kwargs)  # type: ignore[misc]  # the model's

    def delete(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # Django's
        """Delete, within `guarded`."""
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
    """Find the database, by its name or, as older code calls Django, by its place."""
    using: str | None = args[place] if len(args) > place else kwargs.get("using")
    return using


class _Fields:
    """Looks fields up by name, for `str.format_map`."""

    def __init__(self, row: object) -> None:
        self._row = row

    def __getitem__(self, field: str) -> object:
        return getattr(self._row, field)
