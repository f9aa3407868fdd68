"""lockfast: a distributed lock manager that fences. `connect(url)`, `client.lock(name)`, `with`."""

from lockfast.breaks import Break
from lockfast.client import (
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
from lockfast.core.validity import State
from lockfast.errors import (
    CapacityMismatch,
    ClientClosed,
    Deadlock,
    EngineError,
    EngineRefused,
    EngineUnavailable,
    GuaranteeMissing,
    LeaseLost,
    LockfastError,
    Loss,
    NotAcquired,
    StaleToken,
    Unguarded,
    WrongLoop,
)
from lockfast.guarantees import Finding, Guarantees, Level
from lockfast.nouns.election import Leader
from lockfast.nouns.lock import Holder
from lockfast.nouns.overview import Tie
from lockfast.nouns.rwlock import RWLock
from lockfast.nouns.template import INJECTED
from lockfast.who import Who

__all__ = [
    "INJECTED",
    "Break",
    "Candidacy",
    "CapacityMismatch",
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
__version__ = "0.1.0"
