"""The verbs of the API, for tests that are written once: awaited in either colour."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from lockfast.aio import AsyncClient, AsyncLease, AsyncLock
from lockfast.client import Client, Lease, Lock
from lockfast.guarantees import Guarantees
from lockfast.nouns.lock import Holder

T = TypeVar("T")
AnyClient = Client | AsyncClient
AnyLock = Lock | AsyncLock
AnyLease = Lease | AsyncLease


async def acquire(lock: AnyLock, timeout: float | None = None) -> AnyLease:
    """Acquire."""
    if isinstance(lock, Lock):
        return lock.acquire(timeout=timeout)
    return await lock.acquire(timeout=timeout)


async def try_acquire(lock: AnyLock) -> AnyLease | None:
    """Acquire, if it is free now."""
    return lock.try_acquire() if isinstance(lock, Lock) else await lock.try_acquire()


async def release(lease: AnyLease) -> None:
    """Release."""
    if isinstance(lease, Lease):
        lease.release()
    else:
        await lease.release()


async def wait_lost(lease: AnyLease, timeout: float | None = None) -> bool:
    """Wait for the end of a lease."""
    if isinstance(lease, Lease):
        return lease.wait_lost(timeout)
    return await lease.wait_lost(timeout)


async def holders(lock: AnyLock) -> list[Holder]:
    """Tell who holds it."""
    return lock.holders() if isinstance(lock, Lock) else await lock.holders()


async def queue(lock: AnyLock) -> list[Holder]:
    """Tell who holds it and who waits."""
    return lock.queue() if isinstance(lock, Lock) else await lock.queue()


async def close(client: AnyClient) -> None:
    """Close a client."""
    if isinstance(client, Client):
        client.close()
    else:
        await client.close()


async def within(
    thing: AnyLock | AnyLease, body: Callable[[AnyLease], Coroutine[Any, Any, T]]
) -> T:
    """Run a body within a true `with thing:` or `async with thing:`."""
    if isinstance(thing, (Lock, Lease)):
        with thing as lease:
            return await body(lease)
    async with thing as lease:
        return await body(lease)


async def guarantees(client: AnyClient) -> Guarantees:
    """Ask what the engine promises."""
    found = client.guarantees()
    return found if isinstance(found, Guarantees) else await found
