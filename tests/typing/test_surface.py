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


def shapes(client: lockfast.Client) -> None:
    """Checked by mypy, never run."""
    assert_type(client.rwlock("x").read(), lockfast.Lock)
    assert_type(client.rwlock("x"), lockfast.RWLock[lockfast.Lock])
    assert_type(client.semaphore("x", 3, permits=2), lockfast.Lock)
    assert_type(client.rlock("x").acquire(timeout=1), lockfast.RLease)
    assert_type(client.rlock("x").try_acquire(), lockfast.RLease | None)
    with client.rlock("x") as frame:
        assert_type(frame, lockfast.RLease)
    with client.lock_all("x", "y") as leases:
        assert_type(leases, lockfast.MultiLease)
        assert_type(leases.tokens, dict[str, int])
        assert_type(leases.leases, dict[str, lockfast.Lease])
    assert_type(client.lock_all("x", "y").try_acquire(), lockfast.MultiLease | None)
    assert_type(client.inspect("x"), list[lockfast.Holder])
    assert_type(client.deadlocks(), list[list[lockfast.Tie]])
    assert_type(client.revoke(client.inspect()[0], "it hangs", by="ada"), bool)
    election = client.election("x")
    assert_type(election.campaign("me"), lockfast.Lease)
    assert_type(election.leader(), lockfast.Leader | None)
    assert_type(next(election.observe()), lockfast.Leader)
    with election.run(lambda lease: lease.token, lambda: None) as candidacy:
        assert_type(candidacy.lease, lockfast.Lease | None)


async def shapes_of_tasks(client: aio.AsyncClient) -> None:
    """Checked by mypy, never run."""
    assert_type(client.rwlock("x").write(), aio.AsyncLock)
    assert_type(client.semaphore("x", 3, permits=2), aio.AsyncLock)
    assert_type(await client.rlock("x").acquire(timeout=1), aio.AsyncRLease)
    async with client.rlock("x") as frame:
        assert_type(frame, aio.AsyncRLease)
    async with client.lock_all("x", "y") as leases:
        assert_type(leases, aio.AsyncMultiLease)
        assert_type(leases.leases, dict[str, aio.AsyncLease])
    assert_type(await client.lock_all("x", "y").try_acquire(), aio.AsyncMultiLease | None)
    election = client.election("x")
    assert_type(await election.campaign("me"), aio.AsyncLease)
    async with election.campaign("me") as lease:
        assert_type(lease, aio.AsyncLease)
    assert_type(await election.leader(), lockfast.Leader | None)
    async for leader in election.observe():
        assert_type(leader, lockfast.Leader)


def decorated(client: lockfast.Client) -> None:
    """Checked by mypy, never run: parameters and results stay what they were."""

    @client.lock("pay:{order}", ttl=5)
    def pay(order: int, *, fast: bool = False, lease: lockfast.Lease = lockfast.INJECTED) -> str:
        return f"{order} {fast} {lease.token}"

    @client.lock("pay:{order}", on_busy="skip", at_least=1.0)
    def pay_or_skip(order: int) -> str:
        return str(order)

    assert_type(pay(1, fast=True), str)
    assert_type(pay_or_skip(1), str | None)
    pay("1")  # type: ignore[arg-type]  # the decorator keeps the parameters: this is the test
    pay(1, slow=True)  # type: ignore[call-arg]  # the same


async def decorated_tasks(client: aio.AsyncClient) -> None:
    """Checked by mypy, never run."""

    @client.lock("pay:{order}", ttl=5)
    async def pay(order: int) -> str:
        return str(order)

    @client.lock("pay:{order}", on_busy="skip")
    async def pay_or_skip(order: int) -> str:
        return str(order)

    assert_type(await pay(1), str)
    assert_type(await pay_or_skip(1), str | None)
    await pay("1")  # type: ignore[arg-type]  # the decorator keeps the parameters: this is the test

    @client.lock("x")  # type: ignore[arg-type]  # a plain function needs a blocking client
    def plain() -> None: ...


def test_the_public_names_are_these() -> None:
    assert sorted(lockfast.__all__) == [
        "Break",
        "Candidacy",
        "Client",
        "ClientClosed",
        "Deadlock",
        "Election",
        "EngineError",
        "EngineRefused",
        "EngineUnavailable",
        "Finding",
        "GuaranteeMissing",
        "Guarantees",
        "Holder",
        "INJECTED",
        "KindMismatch",
        "Leader",
        "Lease",
        "LeaseLost",
        "Level",
        "Lock",
        "LockfastError",
        "Loss",
        "MultiLease",
        "MultiLock",
        "NotAcquired",
        "RLease",
        "RLock",
        "RWLock",
        "StaleToken",
        "State",
        "Tie",
        "Unguarded",
        "Who",
        "WrongLoop",
        "connect",
    ]
    assert all(hasattr(lockfast, name) for name in lockfast.__all__)


def public(kind: type) -> list[str]:
    return sorted(name for name in dir(kind) if not name.startswith("_"))


def test_both_modes_have_the_same_methods() -> None:
    assert public(lockfast.Client) == public(aio.AsyncClient)
    assert public(lockfast.Lock) == public(aio.AsyncLock)
    assert public(lockfast.Lease) == public(aio.AsyncLease)
    assert public(lockfast.RLock) == public(aio.AsyncRLock)
    assert public(lockfast.RLease) == public(aio.AsyncRLease) == public(lockfast.Lease)
    assert public(lockfast.MultiLock) == public(aio.AsyncMultiLock)
    assert public(lockfast.MultiLease) == public(aio.AsyncMultiLease)
    assert public(lockfast.Election) == public(aio.AsyncElection)
    assert public(lockfast.Candidacy) == public(aio.AsyncCandidacy)
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
        "claim",
        "ensure_held",
        "fence_floor",
        "fenced",
        "id",
        "loss",
        "name",
        "on_contended",
        "on_lost",
        "release",
        "remaining",
        "signed",
        "state",
        "ticket",
        "token",
        "valid_until",
        "wait_lost",
        "waiters",
    ]
    assert public(lockfast.MultiLease) == [
        "ensure_held",
        "leases",
        "loss",
        "on_lost",
        "release",
        "remaining",
        "state",
        "tokens",
        "wait_lost",
    ]
    assert public(lockfast.Election) == ["campaign", "leader", "name", "observe", "run", "ttl"]
