"""A claim and a lock as the dashboard keeps them from one scan to the next."""

from __future__ import annotations

from collections.abc import Iterable

from lockfast.port import Entry
from lockfast.primitives.lock import Holder
from lockfast.runtime.base import now


class Claim(Holder):
    """A holder or waiter. It is kept as long as the engine shows it unchanged."""

    __slots__ = ("mark", "since", "until")

    def __init__(self, entry: Entry, mark: int) -> None:
        """Take an entry of a scan. `mark`: that of the entry, see `mark_of`."""
        super().__init__(entry)
        self.mark = mark
        self.since = self.who.since
        """Since when it holds or waits, in seconds since 1970; 0 if that is not known. For a holder
        whose grant was not seen it is when it asked, by the clock of its machine.
        """

    @property
    def left(self) -> float:
        """Seconds until the engine removes it, unless it is renewed."""
        return max(self.until - now(), 0.0)

    @left.setter
    def left(self, seconds: float) -> None:
        self.until = now() + seconds


class Lock:
    """The claims on one name. It is never changed."""

    __slots__ = ("holders", "name", "waiters")

    def __init__(self, name: str, claims: Iterable[Claim]) -> None:
        """Take the claims, in the order of the queue."""
        self.name = name
        self.holders = tuple(claim for claim in claims if claim.granted)
        self.waiters = tuple(claim for claim in claims if not claim.granted)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The holders, and then the waiters, in the order of the queue."""
        return self.holders + self.waiters

    @property
    def first(self) -> Claim:
        """The first holder, or the first waiter if there is none."""
        return (self.holders or self.waiters)[0]


def mark_of(entry: Entry) -> int:
    """Return a number that differs if anything of a claim has changed but the time left."""
    return hash(
        (entry.name, entry.ticket, entry.granted, entry.kind, entry.weight, entry.payload)
    ) ^ hash(entry.capacity)


def place(claim: Holder) -> tuple[bool, int]:
    """Return what sorts the claims on one name."""
    return not claim.granted, claim.ticket
