"""Distributed locks for Python, with a fencing token for every exclusive lock.

Connect once per process, describe a lock by its name, and hold it in a `with` block::

    import lockfast

    client = lockfast.connect("redis://localhost:6379")
    with client.lock("report", ttl=10) as lease:
        print(lease.token)

This is the blocking client, for threads. `lockfast.aio` has the same for asyncio.
"""

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
    connect,
)
from lockfast.breaks import Break
from lockfast.claims.payload import Who
from lockfast.core.validity import State
from lockfast.errors import (
    ClientClosed,
    Deadlock,
    EngineError,
    EngineRefused,
    EngineUnavailable,
    GuaranteeMissing,
    KindMismatch,
    LeaseLost,
    LockfastError,
    Loss,
    NotAcquired,
    StaleToken,
    Unguarded,
    WrongLoop,
)
from lockfast.guarantees import Finding, Guarantees, Level
from lockfast.primitives.election import Leader
from lockfast.primitives.inspection import Tie
from lockfast.primitives.lock import Holder
from lockfast.primitives.name_template import INJECTED
from lockfast.primitives.rwlock import RWLock

__all__ = [
    "INJECTED",
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
__version__ = "0.2.0"
