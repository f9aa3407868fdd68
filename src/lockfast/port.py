"""The port: the interface that every engine implements, and the types of its arguments and replies.

An engine keeps the claims of each name in a queue, in the order of their tickets. A claim is
granted if and only if its weight plus the weights of all live claims ahead of it is at most the
capacity. `lockfast.core.queue` implements this rule, and the tests compare every engine with it.

Times: `deadline`, `not_after` and all other times from a caller are instants of the local clock
(`lockfast.runtime.base.now`), in seconds. `Standing.left` and `recheck` are durations, measured by
the engine's clock. No other time crosses the port.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NewType, Protocol

from lockfast.guarantees import Guarantees
from lockfast.names import checked

PORT = 1
"""The version of this port. It increases with every change that engines must follow. The port is
provisional until lockfast 1.0, so engines in other packages may have to change with it."""
SHARED = 2**31 - 1  # the capacity of a read/write lock: a reader weighs 1, a writer all of it
SHORTEST, LONGEST = 0.05, 86_400.0  # the bounds of a ttl, in seconds
RECORD = 4096  # the largest record of a break, in bytes
RECORDS = 16  # how many records of breaks are kept for a name: the newest
REMEMBERED = 86_400.0  # seconds for which records of breaks are kept
CLOSING = 0.5  # seconds that closing an engine may take
TOMB_MARGIN = 1.0  # seconds that a tombstone outlives the last moment at which a copy is applied
ServerTime = NewType("ServerTime", int)
"""An instant of a server's clock, in the units of that clock."""
LONGEST_WAIT = 10.0  # the longest `wait_ttl`: how long a crashed waiter can block its queue


@dataclass(frozen=True, slots=True)
class Shape:
    """What a lock asks for: name, ttl, capacity and weight. All claims of a lock share it."""

    name: str
    ttl: float
    capacity: int = 1
    weight: int = 1
    template: str = ""
    """The template that the name was filled from, if known. Telemetry shows it, never the name."""
    wait_ttl: float = field(init=False)
    """Seconds for which the engine keeps a waiting claim without a renewal."""

    def __post_init__(self) -> None:
        """Reject invalid values: `int(0.5)` or `None` would mean an endless lock (traps 8, 10)."""
        checked(self.name)
        if isinstance(self.ttl, bool) or not isinstance(self.ttl, (int, float)):
            raise TypeError(f"ttl is a number of seconds, not {self.ttl!r}")
        if math.isnan(self.ttl) or not SHORTEST <= self.ttl <= LONGEST:
            raise ValueError(
                f"ttl is {SHORTEST} to {LONGEST:.0f} seconds, not {self.ttl!r}. "
                "A lease renews itself: the ttl is how long a crashed holder blocks others."
            )
        if not 1 <= self.weight <= self.capacity <= SHARED:
            raise ValueError(
                f"1 <= weight <= capacity <= {SHARED} does not hold: "
                f"weight {self.weight}, capacity {self.capacity}"
            )
        object.__setattr__(self, "wait_ttl", min(self.ttl, LONGEST_WAIT))

    @property
    def exclusive(self) -> bool:
        """Whether a grant excludes all others. Only then is its ticket a fencing token."""
        return self.weight == self.capacity


def permits_of(capacity: int, permits: int) -> int:
    """Return the capacity of a semaphore. Raise `ValueError` unless 1 <= permits <= capacity.

    The capacity must be below SHARED, because a guard takes a lock with that capacity for a
    read/write lock.
    """
    if isinstance(capacity, bool) or not isinstance(capacity, int):
        raise TypeError(f"a semaphore has a whole number of permits, not {capacity!r}")
    if isinstance(permits, bool) or not isinstance(permits, int):
        raise TypeError(f"permits is a whole number, not {permits!r}")
    if not 1 <= capacity < SHARED:
        raise ValueError(f"a semaphore has 1 to {SHARED - 1} permits, not {capacity}")
    if not 1 <= permits <= capacity:
        raise ValueError(
            f"this semaphore has {capacity} permits: a claim takes 1 to {capacity}, not {permits}"
        )
    return capacity


class Ask:
    """The request for one claim. If it is sent again, the copy has the same content."""

    __slots__ = ("id", "late", "not_after", "packed", "payload", "queue", "shape")

    def __init__(
        self,
        id: str,  # noqa: A002  # it is the id
        shape: Shape,
        queue: bool,  # noqa: FBT001  # a value, not a switch
        not_after: float,
        payload: bytes,
    ) -> None:
        """Make the request for a claim. Nothing is sent.

        `id`: 32 hexadecimal digits, used for one acquisition and never again. The first 22 name
        the client, so that an engine can address it.
        `queue`: whether the claim waits in the queue. Otherwise the engine keeps the claim only if
        it grants it at once.
        `not_after`: an instant of the local clock. The server must not apply a copy of the claim
        that arrives later. The engine either converts it to the server's clock, by an offset that
        it learns from the server's replies, and lets the server compare. Or it sends no later
        copies, and makes sure that the server refuses those under way. `not_after` is at most one
        `wait_ttl` after the first sending. So a copy either finds the entry that an earlier copy
        made, or makes the first one, and no copy revives an id that has expired.
        """
        self.id = id
        self.shape = shape
        self.queue = queue
        self.not_after = not_after
        self.payload = payload
        self.packed: object = None
        """The claim in the engine's own encoding. An engine may keep it here, to encode it once."""
        self.late = ServerTime(0)
        """The latest `not_after` that any copy was sent with, by the server's clock. A tombstone
        must outlive it, and the offset to that clock may have changed since the copy was sent."""


class Blocker(NamedTuple):
    """The claim at the head of the queue. Messages to waiters name it as the holder."""

    id: str
    ticket: int
    payload: bytes


class Standing(NamedTuple):
    """The state of a claim in its queue, as the engine saw it in one atomic step.

    A claim without `queue` that cannot be granted at once is not kept. The reply to it is a
    standing with ticket 0, not granted, with `ahead` and the blocker.
    """

    ticket: int
    """Higher than every earlier ticket of the name, and below 2**53. 0: the claim was not kept."""
    granted: bool
    left: float
    """Seconds until the engine drops the claim unless it is renewed."""
    ahead: int = 0
    behind: int = 0
    """How many claims wait behind this one."""
    floor: int = 0
    """The ticket of the oldest live claim. The holder of a shared lock seals a guard with it."""
    blocker: Blocker | None = None
    recheck: float | None = None
    """For the first waiter: seconds until the next expiry that could grant its claim. It must look
    by itself then, because a holder that crashes sends no wake."""


class Wake(NamedTuple):
    """A push: this claim may be granted now. A push may be lost, come early or come twice."""

    id: str
    granted: bool
    """True if the engine has granted the claim. False if the client must ask: a waiter may have
    been granted, or a holder's session may be in trouble."""
    floor: int = 0


EVERYONE = Wake("", granted=False)
"""Wakes may have been missed, so the client must ask for every waiter. An engine returns this first
after each subscription, also after the very first one."""


class Entry(NamedTuple):
    """A live claim, as `inspect` returns it."""

    name: str
    id: str
    ticket: int
    granted: bool
    weight: int
    capacity: int
    left: float
    payload: bytes


class Page(NamedTuple):
    """A part of the entries, and the cursor of the next page (None: this is the last page)."""

    entries: list[Entry]
    cursor: str | None


class Engine(Protocol):
    """The interface of an engine, blocking or asyncio. Deadlines are of the local clock.

    A method raises `EngineUnavailable` if no reply came by the deadline, and `EngineRefused` if the
    server rejected the request. `EngineUnavailable.sent` is False only if no byte of the request
    can have reached the server: then nothing can have happened, and the claim needs no tombstone.
    In every other case, also if the connection ended while the request was written, it is True.

    Methods of a blocking engine never suspend. All methods may be called by several threads or
    tasks at once, except `listen`, which only the heart calls. The constructor of an engine does
    not connect: connections are made on first use.
    """

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Add a claim to its queue, atomically and idempotently by id, and return its standing.

        Returns None if the id is dead: it has expired, or has a tombstone, or the copy came too
        late. Raises `CapacityMismatch` if the name's live claims have another capacity.
        """
        ...

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Do the same for several claims, in one round trip where that is possible. Each succeeds
        or fails by itself, and no two are for one name.
        """
        ...

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend holders to their ttl and waiters to their wait_ttl, and return their standings.

        None stands for a claim that is gone. A renewal never adds to the time left, never shortens
        it and never recreates a claim. A claim that fails does not affect the others. No claim is
        in `asks` twice.
        """
        ...

    async def resign(self, asks: Sequence[Ask], deadline: float, *, doubt: bool) -> list[bool]:
        """Remove claims for good, and wake exactly those that may now be granted. Return for each
        claim whether it was there.

        `doubt`: a copy of the claim was sent and not answered, and must not be applied later. The
        engine leaves a tombstone: it refuses the id until `TOMB_MARGIN` after the latest moment at
        which any copy would be applied, by the server's clock (`Ask.late`).
        """
        ...

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Send a resignation without waiting for the reply, if that is possible. Never blocks for
        long and never raises. It may do nothing, as the heart resigns the same claims afterwards.
        """
        ...

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait for wakes, a `rouse` or the deadline, and return the wakes. A lost connection is no
        error here: return `EVERYONE` once the server sends wakes (again), and nothing until then.

        The heart calls it between renewals. An engine may also do its background work here, such as
        resignations for a server that was unreachable. That must not outlast the deadline.
        """
        ...

    def rouse(self) -> None:
        """Make `listen` return now. Callable from any thread, never raises."""
        ...

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Return a page of the claims on one name, or on all names with a prefix. Change nothing.

        Pages are read one by one. A claim that changes in between may appear twice, or not at all.
        """
        ...

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        """Store the record of a break, one line of text of at most `RECORD` bytes.

        `claim`: the id of the claim that was broken. The newest `RECORDS` of a name are kept, for
        about a day. No decision of lockfast depends on them.
        """
        ...

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Return the records of breaks of a name, the newest first."""
        ...

    async def guarantees(self, deadline: float) -> Guarantees:
        """Read the server's setup, and return what the engine guarantees with it."""
        ...

    def reset(self) -> None:
        """Drop every connection in a forked child, without sending anything: the parent still uses
        them. The engine is discarded afterwards, and the child makes another one.
        """
        ...

    async def close(self) -> None:
        """Close the connections, within CLOSING seconds. Never raises."""
        ...
