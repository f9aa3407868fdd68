"""lockfast: a distributed lock manager that fences. `connect(url)`, `client.lock(name)`, `with`."""

import logging

from lockfast.client import Client, Lease, Lock, connect
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
from lockfast.nouns.lock import Holder
from lockfast.who import Who

__all__ = [
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
__version__ = "0.1.0"
logging.getLogger("lockfast").addHandler(logging.NullHandler())
