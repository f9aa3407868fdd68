"""The methods of the API as coroutines for both modes, so that each test is written once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

from lockfast.aio import (
    AsyncCandidacy,
    AsyncClient,
    AsyncElection,
    AsyncLease,
    AsyncLock,
    AsyncMultiLease,
    AsyncMultiLock,
    AsyncRLease,
    AsyncRLock,
)
from lockfast.blocking.client import (
    Candidacy,
    Client,
    Election,
    Lease,
    Lock,
    MultiLease,
    MultiLock,
    RLease,
    RLock,
)
from lockfast.breaks import Break
from lockfast.guarantees import Guarantees
from lockfast.primitives.election import Leader
from lockfast.primitives.inspection import Tie
from lockfast.primitives.lock import Holder

T = TypeVar("T")
AnyClient = Client | AsyncClient
AnyLock = Lock | AsyncLock
AnyLease = Lease | AsyncLease
AnyRLock = RLock | AsyncRLock
AnyRLease = RLease | AsyncRLease
AnyMultiLock = MultiLock | AsyncMultiLock
AnyMultiLease = MultiLease | AsyncMultiLease
AnyElection = Election | AsyncElection
AnyCandidacy = Candidacy | AsyncCandidacy
BLOCKING_LOCKS = (Lock, RLock, MultiLock)
BLOCKING_LEASES = (Lease, RLease, MultiLease)


@overload
async def acquire(lock: AnyLock, timeout: float | None = None) -> AnyLease: ...
@overload
async def acquire(lock: AnyRLock, timeout: float | None = None) -> AnyRLease: ...
@overload
async def acquire(lock: AnyMultiLock, timeout: float | None = None) -> AnyMultiLease: ...
async def acquire(
    lock: AnyLock | AnyRLock | AnyMultiLock, timeout: float | None = None
) -> AnyLease | AnyRLease | AnyMultiLease:
    """Acquire a lock."""
    if isinstance(lock, BLOCKING_LOCKS):
        return lock.acquire(timeout=timeout)
    return await lock.acquire(timeout=timeout)


@overload
async def try_acquire(lock: AnyLock) -> AnyLease | None: ...
@overload
async def try_acquire(lock: AnyRLock) -> AnyRLease | None: ...
@overload
async def try_acquire(lock: AnyMultiLock) -> AnyMultiLease | None: ...
async def try_acquire(
    lock: AnyLock | AnyRLock | AnyMultiLock,
) -> AnyLease | AnyRLease | AnyMultiLease | None:
    """Acquire a lock if it is free now; otherwise return None."""
    return lock.try_acquire() if isinstance(lock, BLOCKING_LOCKS) else await lock.try_acquire()


async def release(lease: AnyLease | AnyRLease | AnyMultiLease) -> None:
    """Release a lease."""
    if isinstance(lease, BLOCKING_LEASES):
        lease.release()
    else:
        await lease.release()


async def wait_lost(
    lease: AnyLease | AnyRLease | AnyMultiLease, timeout: float | None = None
) -> bool:
    """Wait until a lease ends; return False if the timeout comes first."""
    if isinstance(lease, BLOCKING_LEASES):
        return lease.wait_lost(timeout)
    return await lease.wait_lost(timeout)


async def holders(lock: AnyLock | AnyRLock) -> list[Holder]:
    """Return who holds a lock."""
    return lock.holders() if isinstance(lock, BLOCKING_LOCKS) else await lock.holders()


async def queue(lock: AnyLock | AnyRLock) -> list[Holder]:
    """Return who holds a lock and who waits for it."""
    return lock.queue() if isinstance(lock, BLOCKING_LOCKS) else await lock.queue()


async def close(client: AnyClient) -> None:
    """Close a client."""
    if isinstance(client, Client):
        client.close()
    else:
        await client.close()


@overload
async def within(
    thing: AnyLock | AnyLease, body: Callable[[AnyLease], Coroutine[Any, Any, T]]
) -> T: ...
@overload
async def within(
    thing: AnyRLock | AnyRLease, body: Callable[[AnyRLease], Coroutine[Any, Any, T]]
) -> T: ...
@overload
async def within(
    thing: AnyMultiLock | AnyMultiLease, body: Callable[[AnyMultiLease], Coroutine[Any, Any, T]]
) -> T: ...
async def within(thing: Any, body: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
    """Run a body inside a real `with thing:` or `async with thing:` statement."""
    if isinstance(thing, BLOCKING_LOCKS + BLOCKING_LEASES):
        with thing as lease:
            return await body(lease)
    async with thing as lease:
        return await body(lease)


async def within_acquired(
    lock: AnyLock, timeout: float, body: Callable[[AnyLease], Coroutine[Any, Any, T]]
) -> T:
    """Run a body within `with lock.acquire(timeout=...):` or its `async with`."""
    if isinstance(lock, Lock):
        with lock.acquire(timeout=timeout) as lease:
            return await body(lease)
    async with lock.acquire(timeout=timeout) as awaited:
        return await body(awaited)


async def within_tried(lock: AnyLock, body: Callable[[AnyLease], Coroutine[Any, Any, T]]) -> T:
    """Run a body within `with lock.try_acquire():`, which may be None."""
    if isinstance(lock, Lock):
        with lock.try_acquire() as lease:  # type: ignore[union-attr]  # it is the mistake to test
            return await body(lease)
    async with await lock.try_acquire() as awaited:  # type: ignore[union-attr]  # the same
        return await body(awaited)


async def guarantees(client: AnyClient) -> Guarantees:
    """Return what the engine guarantees."""
    found = client.guarantees()
    return found if isinstance(found, Guarantees) else await found


async def inspect(client: AnyClient, prefix: str = "") -> list[Holder]:
    """Return all holders and waiters of the names with a prefix."""
    found = client.inspect(prefix)
    return found if isinstance(found, list) else await found


async def deadlocks(client: AnyClient) -> list[list[Tie]]:
    """Return all deadlocks."""
    found = client.deadlocks()
    return found if isinstance(found, list) else await found


async def breaks(client: AnyClient, name: str) -> list[Break]:
    """Return the records of the breaks of a lock."""
    found = client.breaks(name)
    return found if isinstance(found, list) else await found


async def revoke(client: AnyClient, holder: Holder, reason: str) -> bool:
    """Take a claim away from its holder or waiter; return whether it was there."""
    removed = client.revoke(holder, reason)
    return removed if isinstance(removed, bool) else await removed


async def campaign(
    election: AnyElection, value: str = "", timeout: float | None = None
) -> AnyLease:
    """Wait to become the leader."""
    if isinstance(election, Election):
        return election.campaign(value, timeout=timeout)
    return await election.campaign(value, timeout=timeout)


async def leader(election: AnyElection) -> Leader | None:
    """Return the leader, or None."""
    return election.leader() if isinstance(election, Election) else await election.leader()


async def observed(election: AnyElection, count: int, seen: list[Leader]) -> None:
    """Append `count` leaders to `seen`, with a real `for` or `async for` loop."""
    if isinstance(election, Election):
        for each in election.observe(0.02):
            seen.append(each)
            if len(seen) == count:
                return
    else:
        async for each in election.observe(0.02):
            seen.append(each)
            if len(seen) == count:
                return


async def stand(candidacy: AnyCandidacy, body: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a body inside the `with` block of a candidacy, which campaigns or leads meanwhile."""
    if isinstance(candidacy, Candidacy):
        with candidacy:
            return await body()
    async with candidacy:
        return await body()


async def withdraw(candidacy: AnyCandidacy) -> None:
    """Withdraw a candidacy."""
    if isinstance(candidacy, Candidacy):
        candidacy.withdraw()
    else:
        await candidacy.withdraw()
