"""The shape of a lock: its kind, name, ttl, capacity and weight."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum

from lockfast.names import checked
from lockfast.port.limits import LONGEST, LONGEST_WAIT, SHORTEST

SHARED = 2**31 - 1  # the capacity of a read/write lock: a reader weighs 1, a writer all of it


class Kind(IntEnum):
    """The kind of lock that a claim is for. Engines store this number with each claim.

    Claims of two kinds never share a name, because each kind relies on another meaning of capacity
    and weight: a semaphore's capacity may differ from claim to claim, and so none of its claims is
    exclusive.
    """

    LOCK = 1
    READ_WRITE = 2
    SEMAPHORE = 3

    @property
    def words(self) -> str:
        """What it is called in messages."""
        return self.name.lower().replace("_", "/") + (" lock" if self is Kind.READ_WRITE else "")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a lock asks for: name, ttl, kind, capacity and weight. All claims of a lock share it."""

    name: str
    ttl: float
    kind: Kind = Kind.LOCK
    capacity: int = 1
    """A lock has 1, a read/write lock SHARED. A semaphore's may differ from claim to claim."""
    weight: int = 1
    """A reader weighs 1, a writer SHARED. Any claim of a semaphore weighs as many permits as it
    takes."""
    template: str = ""
    """The template that the name was filled from, if known. Telemetry shows it, never the name."""
    wait_ttl: float = field(init=False)
    """Seconds for which the engine keeps a waiting claim without a renewal."""
    exclusive: bool = field(init=False)
    """Whether a grant excludes all others. Only then is its ticket a fencing token. A semaphore's
    claim never is: one of weight 5 and capacity 5 may be held beside one of capacity 8."""

    def __post_init__(self) -> None:
        """Reject invalid values: `int(0.5)` or `None` would mean an endless lock (traps 8, 10)."""
        checked(self.name)
        if isinstance(self.ttl, bool) or not isinstance(self.ttl, (int, float)):
            raise TypeError(f"ttl must be a number of seconds, not {self.ttl!r}")
        if math.isnan(self.ttl) or not SHORTEST <= self.ttl <= LONGEST:
            raise ValueError(
                f"ttl must be {SHORTEST} to {LONGEST:.0f} seconds, not {self.ttl!r}. lockfast "
                "renews the lease, so the ttl is only how long the lock stays taken after a crash."
            )
        if not fits_kind(self.kind, self.capacity, self.weight):
            raise ValueError(
                f"a {self.kind.words} cannot have capacity {self.capacity} and weight {self.weight}"
            )
        object.__setattr__(self, "wait_ttl", min(self.ttl, LONGEST_WAIT))
        exclusive = self.kind is not Kind.SEMAPHORE and self.weight == self.capacity
        object.__setattr__(self, "exclusive", exclusive)


def fits_kind(kind: Kind, capacity: int, weight: int) -> bool:
    """Return whether claims of a kind can have this capacity and weight."""
    if kind is Kind.LOCK:
        return capacity == weight == 1
    if kind is Kind.READ_WRITE:
        return capacity == SHARED and weight in {1, SHARED}
    return 1 <= weight <= capacity < SHARED


def permits_of(capacity: int, permits: int) -> int:
    """Return the capacity of a semaphore. Raise `ValueError` unless 1 <= permits <= capacity."""
    if isinstance(capacity, bool) or not isinstance(capacity, int):
        raise TypeError(f"capacity must be a whole number, not {capacity!r}")
    if isinstance(permits, bool) or not isinstance(permits, int):
        raise TypeError(f"permits must be a whole number, not {permits!r}")
    if not 1 <= capacity < SHARED:
        raise ValueError(f"capacity must be 1 to {SHARED - 1}, not {capacity}")
    if not 1 <= permits <= capacity:
        raise ValueError(f"permits must be 1 to the capacity of {capacity}, not {permits}")
    return capacity
