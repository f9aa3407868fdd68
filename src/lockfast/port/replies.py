"""The replies of an engine: standings, wakes and the entries of a queue."""

from __future__ import annotations

from typing import NamedTuple

from lockfast.port.shape import Kind


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
    """The id of the claim. If it is shorter than an id, wakes of any claim whose id begins with it
    may have been missed."""
    granted: bool
    """True if the engine has granted the claim. False if the client must ask: a waiter may have
    been granted, or a holder's session may be in trouble."""
    floor: int = 0


EVERYONE = Wake("", granted=False)
"""Wakes may have been missed, so the client must ask for every waiter. An engine returns this first
after each subscription for all clients that it hears."""


def everyone_of(client: str) -> Wake:
    """Return the wake that says that wakes of one client may have been missed."""
    return Wake(client, granted=False)


class Entry(NamedTuple):
    """A live claim, as `inspect` returns it."""

    name: str
    id: str
    ticket: int
    granted: bool
    kind: Kind
    weight: int
    capacity: int
    left: float
    payload: bytes


class Page(NamedTuple):
    """A part of the entries, and the cursor of the next page (None: this is the last page)."""

    entries: list[Entry]
    cursor: str | None
    others: frozenset[int] = frozenset()
    """The formats of claims on these names that this version cannot read, so they have no entry."""
