"""The asyncio client: `connect(url)` and what it gives."""

from lockfast.aio.client import AsyncClient, connect
from lockfast.aio.facade import (
    AsyncCandidacy,
    AsyncElection,
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
