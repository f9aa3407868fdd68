"""Alembic: a context manager for `env.py`, so that one process migrates at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from alembic import context
from alembic.util import to_tuple
from sqlalchemy import Engine

from lockfast.blocking.client import Lease, Lock


@contextmanager
def locked(lock: Lock, engine: Engine, **options: Any) -> Iterator[Lease]:  # noqa: ANN401  # Alembic's
    """Acquire the lock, connect, configure Alembic's context and begin its transaction.

    It connects after it has acquired the lock. So a process that has waited sees the migrations of
    the one before it. Each migration calls `lease.ensure_held()` before its transaction ends, so a
    process that has lost its lease commits nothing more.

    Args:
        lock: The lock that every process acquires before it migrates.
        engine: The SQLAlchemy engine of the database to migrate.
        options: Further arguments of `context.configure`.

    Yields:
        The lease.

    Raises:
        NotAcquired: The lock was not granted within its timeout.
        LeaseLost: The lease was lost. The migration that was running is rolled back, if the
            database can do that.
        EngineError: The engine cannot be reached, or it rejects the request.
    """
    callbacks = to_tuple(options.pop("on_version_apply", None), default=())
    with lock as lease, engine.connect() as connection:

        def applied(**said: Any) -> None:  # noqa: ANN401  # Alembic's
            for each in callbacks:
                each(**said)
            lease.ensure_held()

        context.configure(
            connection=connection,
            on_version_apply=applied,  # type: ignore[arg-type]  # it is called by keywords
            **options,
        )
        with context.begin_transaction():
            yield lease
