"""The public types, as a user's type checker sees them, and the public names, as recorded here."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack
from typing import assert_type

import lockfast
from lockfast import aio


def blocking(client: lockfast.Client) -> None:
    """Checked by mypy, never run."""
    lock = client.lock("x", ttl=1.5, timeout=None, purpose="why")
    assert_type(lock, lockfast.Lock)
    assert_type(lock.acquire(), lockfast.Lease)
    assert_type(lock.acquire(timeout=5), lockfast.Lease)
    assert_type(lock.try_acquire(), lockfast.Lease | None)
    assert_type(lock.holders(), list[lockfast.Holder])
    with lock as lease:
        assert_type(lease, lockfast.Lease)
        assert_type(lease.token, int)
        assert_type(lease.state, lockfast.State)
        assert_type(lease.loss, lockfast.Loss | None)
        assert_type(lease.wait_lost(1.0), bool)
    with lock.acquire(timeout=1) as lease:
        assert_type(lease, lockfast.Lease)
    with ExitStack() as stack:
        assert_type(stack.enter_context(lock.acquire()), lockfast.Lease)


async def tasks(client: aio.AsyncClient) -> None:
    """Checked by mypy, never run."""
    lock = client.lock("x", ttl=1.5, timeout=None, purpose="why")
    assert_type(lock, aio.AsyncLock)
    assert_type(await lock.acquire(), aio.AsyncLease)
    assert_type(await lock.try_acquire(), aio.AsyncLease | None)
    assert_type(await lock.holders(), list[lockfast.Holder])
    async with lock as lease:
        assert_type(lease, aio.AsyncLease)
        assert_type(await lease.wait_lost(1.0), bool)
    async with lock.acquire(timeout=1) as lease:
        assert_type(lease, aio.AsyncLease)
    async with AsyncExitStack() as stack:
        assert_type(await stack.enter_async_context(lock.acquire()), aio.AsyncLease)


def test_the_public_names_are_these() -> None:
    assert sorted(lockfast.__all__) == [
        "CapacityMismatch",
        "Client",
        "ClientClosed",
        "Deadlock",
        "EngineError",
        "EngineRefused",
        "EngineUnavailable",
        "Finding",
        "GuaranteeMissing",
        "Guarantees",
        "Holder",
        "Lease",
        "LeaseLost",
        "Level",
        "Lock",
        "LockfastError",
        "Loss",
        "NotAcquired",
        "StaleToken",
        "State",
        "Unguarded",
        "Who",
        "WrongLoop",
        "connect",
    ]
    assert all(hasattr(lockfast, name) for name in lockfast.__all__)


def public(kind: type) -> list[str]:
    return sorted(name for name in dir(kind) if not name.startswith("_"))


def test_both_colours_have_the_same_methods() -> None:
    assert public(lockfast.Client) == public(aio.AsyncClient)
    assert public(lockfast.Lock) == public(aio.AsyncLock)
    assert public(lockfast.Lease) == public(aio.AsyncLease)
    assert public(lockfast.Lock) == [
        "acquire",
        "holders",
        "name",
        "queue",
        "release",
        "try_acquire",
        "ttl",
    ]
    assert public(lockfast.Lease) == [
        "ensure_held",
        "fence_floor",
        "fenced",
        "id",
        "live",
        "loss",
        "name",
        "on_lost",
        "release",
        "remaining",
        "state",
        "ticket",
        "token",
        "valid_until",
        "wait_lost",
        "waiters",
    ]
