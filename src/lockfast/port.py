"""The port: what an engine must do, and the values that cross it.

An engine keeps the claims of each name in a queue, in the order of their tickets. A claim is
granted if and only if its weight plus the weights of all live claims ahead of it is at most the
capacity. `lockfast.core.queue` is this rule as a program, and every engine is compared with it.

Times: `deadline`, `not_after` and whatever a caller passes are instants of the local clock
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
"""The number of this port. It grows with every change that an engine must follow. The port is
provisional until lockfast 1.0: an engine of another package may have to change with it."""
SHARED = 2**31 - 1  # the capacity of a read/write lock: a reader weighs 1, a writer all of it
SHORTEST, LONGEST = 0.05, 86_400.0  # seconds a lease may last between two renewals
RECORD = 4096  # bytes of the record of a break, at most
RECORDS = 16  # of them that are kept for a name: the newest
REMEMBERED = 86_400.0  # seconds for which they are kept
CLOSING = 0.5  # seconds that closing an engine may take
TOMB_MARGIN = 1.0  # seconds that a tombstone outlives the last moment at which a copy is applied
ServerTime = NewType("ServerTime", int)
"""An instant of a server's clock, in the units in which that server counts."""
LONGEST_WAIT = 10.0  # a crashed waiter blocks its queue for no longer than this


@dataclass(frozen=True, slots=True)
class Shape:
    """What is asked for, whoever asks: one per lock, shared by all its claims."""

    name: str
    ttl: float
    capacity: int = 1
    weight: int = 1
    template: str = ""
    """What the name was made from, if that is known: telemetry shows this, and never the name."""
    wait_ttl: float = field(init=False)
    """How long a waiter lives without a renewal."""

    def __post_init__(self) -> None:
        """Admit only valid values: `int(0.5)` and `None` made locks without end (traps 8, 10)."""
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
        """A claim that leaves no room beside it: its ticket is a fencing token."""
        return self.weight == self.capacity


def permits_of(capacity: int, permits: int) -> int:
    """Return a semaphore's capacity if it can have that many permits, and give that many of them:
    one as large as a read/write lock's would be taken for one.
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
    """One claim, as it is sent: every copy of it is the same."""

    __slots__ = ("id", "late", "not_after", "packed", "payload", "queue", "shape")

    def __init__(
        self,
        id: str,  # noqa: A002  # it is the id
        shape: Shape,
        queue: bool,  # noqa: FBT001  # a value, not a switch
        not_after: float,
        payload: bytes,
    ) -> None:
        """Make a claim that was not sent yet.

        `id`: 32 hexadecimal digits, used for one acquisition and never again. The first 22 name
        the client, so that an engine can address it.
        `queue`: stand in line; otherwise the claim is kept only if it is granted at once.
        `not_after`: an instant of the local clock. No copy of the claim that arrives later is
        applied: the engine translates it to the server's clock, by an offset that it learns from
        the server's replies, and lets the server compare; or it does not send later copies and
        makes sure that those under way are refused. It is at most one life of the claim after the
        first sending, so that a copy either finds the entry that an earlier copy made, or makes the
        first: an id that has expired stays dead.
        """
        self.id = id
        self.shape = shape
        self.queue = queue
        self.not_after = not_after
        self.payload = payload
        self.packed: object = None
        """Where an engine may keep its own form of the claim, made once."""
        self.late = ServerTime(0)
        """The latest `not_after` that any copy was sent with, by the server's clock. A tombstone
        must outlive it: what is known of that clock may have changed since."""


class Blocker(NamedTuple):
    """Who stands in the way: the head of the queue."""

    id: str
    ticket: int
    payload: bytes


class Standing(NamedTuple):
    """Where a claim stands, as the engine saw it in one atomic step.

    A claim without `queue` that cannot be granted at once is not kept: the answer to it is a
    standing with ticket 0, not granted, with `ahead` and the blocker.
    """

    ticket: int
    """Above all tickets that were ever given for the name, and below 2**53. 0: not kept."""
    granted: bool
    left: float
    """Seconds until the engine drops the claim unless it is renewed."""
    ahead: int = 0
    behind: int = 0
    """How many claims wait behind this one."""
    floor: int = 0
    """The ticket of the oldest live claim: what a shared holder seals with."""
    blocker: Blocker | None = None
    recheck: float | None = None
    """For the first in line: seconds until the next expiry that could let it in. A holder that
    dies wakes nobody."""


class Wake(NamedTuple):
    """A push: this claim may be granted now. It may be lost, early or doubled."""

    id: str
    granted: bool
    """True if the engine itself granted it; False if it is only worth a look: a waiter may have
    been let in, a holder's session may be in trouble."""
    floor: int = 0


EVERYONE = Wake("", granted=False)
"""Pushes may have been missed: look at every waiter. An engine returns it first after each
subscription, also after the very first one."""


class Entry(NamedTuple):
    """A live claim, as `inspect` shows it."""

    name: str
    id: str
    ticket: int
    granted: bool
    weight: int
    capacity: int
    left: float
    payload: bytes


class Page(NamedTuple):
    """Some entries, and where to go on (None: that was all)."""

    entries: list[Entry]
    cursor: str | None


class Engine(Protocol):
    """What lockfast needs of an engine, blocking or asyncio. Deadlines are of the local clock.

    A method raises `EngineUnavailable` when no answer came by the deadline, and `EngineRefused`
    when the engine said no. `EngineUnavailable.sent` is False only if no byte of the request can
    have reached the server: then nothing can have happened, and the claim needs no tombstone. In
    every other case, also if the connection ended while the request was written, it is True.

    Methods of a blocking engine never suspend. All methods may be called by several threads or
    tasks at once, except `listen`, which the heart alone calls. Constructing an engine connects to
    nothing: connections are made on first use.
    """

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Append and report, atomically and idempotently by id. None: the id is dead.

        Raises `CapacityMismatch` when the claims that are there say another capacity.
        """
        ...

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Do the same for several, in one round trip where that is possible. Each stands alone, and
        no two are for one name.
        """
        ...

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend holders to their ttl and waiters to their wait_ttl, and re-read their standing.

        None: gone. Never additive, never shortening, never resurrecting; one bad claim fails alone.
        No claim is in `asks` twice.
        """
        ...

    async def resign(self, asks: Sequence[Ask], deadline: float, *, doubt: bool) -> list[bool]:
        """Remove for good, and wake exactly those that may now be granted.

        `doubt`: a copy of the claim was sent and not answered; it must not come to life later. The
        engine leaves a tombstone: it refuses the id until `TOMB_MARGIN` after the latest moment at
        which any copy would be applied, by the server's clock (`Ask.late`).
        """
        ...

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Send a resignation off without waiting, if that is possible. Bounded, never raises.

        The heart resigns the same claims afterwards, so doing nothing is right too.
        """
        ...

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Sleep until a push, a `rouse` or the deadline. Connection trouble is not an error here:
        return `EVERYONE` once pushes flow (again), and nothing until then.

        The heart calls it between its renewals, so it is also the engine's time for chores, such as
        deliveries that are owed to a server that was away. They must not outlast the deadline.
        """
        ...

    def rouse(self) -> None:
        """Make `listen` return now. Callable from any thread, never raises."""
        ...

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Read, without changing anything, the claims on one name or on names with a prefix.

        Pages are read one by one: what changes in between may be shown twice, or not at all.
        """
        ...

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        """Keep the record of a break for whoever asks for it: one line of text, `RECORD` bytes.

        `claim`: the id of the claim that was broken. The newest `RECORDS` of a name are kept, for
        about a day. Nothing that is decided depends on them.
        """
        ...

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Read what was recorded for a name, the newest first."""
        ...

    async def guarantees(self, deadline: float) -> Guarantees:
        """Ask the live server how it is set up, and say what that lets us promise."""
        ...

    def reset(self) -> None:
        """Forget every connection without touching its peer: the process has forked. The engine is
        discarded afterwards, and the child makes another one.
        """
        ...

    async def close(self) -> None:
        """Close the connections, within CLOSING seconds. Never raises."""
        ...
