"""The asyncio client. It has the same methods as the blocking one, as coroutines.

A client serves the tasks of one event loop. Hold a lock in an `async with` block::

    import asyncio

    import lockfast.aio


    async def main():
        async with lockfast.aio.connect("redis://localhost:6379") as client:
            async with client.lock("report", ttl=10) as lease:
                print(lease.token)


    asyncio.run(main())
"""

from lockfast.aio.client import AsyncClient, connect
from lockfast.aio.election import AsyncCandidacy, AsyncElection
from lockfast.aio.facade import (
    AsyncLease,
    AsyncLock,
    AsyncMultiLease,
    AsyncMultiLock,
    AsyncRLease,
    AsyncRLock,
    AsyncSkip,
)

__all__ = [
    "AsyncCandidacy",
    "AsyncClient",
    "AsyncElection",
    "AsyncLease",
    "AsyncLock",
    "AsyncMultiLease",
    "AsyncMultiLock",
    "AsyncRLease",
    "AsyncRLock",
    "AsyncSkip",
    "connect",
]
