"""A claim and a lock as the dashboard keeps them from one scan to the next."""

from __future__ import annotations

from collections.abc import Iterable
from sys import intern

from lockfast.claims.payload import Who
from lockfast.port import Entry
from lockfast.primitives.lock import Holder
from lockfast.runtime.base import now


class Claim(Holder):
    """A holder or waiter. It is kept as long as the engine shows it unchanged.

    It is also the lock, if there is no other claim on the name. A hundred thousand locks are then a
    hundred thousand objects for the garbage collector, and not four times as many: while it looks
    at them, nothing else runs.
    """

    __slots__ = ("_who", "mark", "since", "until")

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

    @property
    def who(self) -> Who:
        """Who made it."""
        return Who._make(self._who)

    @who.setter
    def who(self, who: Who) -> None:
        # A plain tuple of texts and numbers is nothing that the garbage collector looks at. Many
        # claims have the same texts.
        self._who = tuple(intern(each) if isinstance(each, str) else each for each in who)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All claims on the name: this one."""
        return (self,)

    @property
    def holders(self) -> tuple[Claim, ...]:
        """The holders."""
        return (self,) if self.granted else ()

    @property
    def waiters(self) -> tuple[Claim, ...]:
        """The waiters."""
        return () if self.granted else (self,)

    @property
    def first(self) -> Claim:
        """The first holder, or the first waiter if there is none."""
        return self


class Queue:
    """The claims on one name, if there are several. It is never changed."""

    __slots__ = ("claims", "name")

    def __init__(self, name: str, claims: Iterable[Claim]) -> None:
        """Take the claims, in the order of the queue."""
        self.name = name
        self.claims = tuple(claims)
        """The holders, and then the waiters, in the order of the queue."""

    @property
    def holders(self) -> tuple[Claim, ...]:
        """The holders."""
        return tuple(claim for claim in self.claims if claim.granted)

    @property
    def waiters(self) -> tuple[Claim, ...]:
        """The waiters."""
        return tuple(claim for claim in self.claims if not claim.granted)

    @property
    def first(self) -> Claim:
        """The first holder, or the first waiter if there is none."""
        return self.claims[0]


Lock = Claim | Queue


def key_of(name: str, id_: str) -> str:
    """Return what tells a claim from all others. Clients choose ids: one can be on two names."""
    return f"{id_} {name}"


def mark_of(entry: Entry) -> int:
    """Return a number that differs if anything of a claim has changed but the time left."""
    return hash(
        (entry.name, entry.ticket, entry.granted, entry.kind, entry.weight, entry.payload)
    ) ^ hash(entry.capacity)


def place(claim: Holder) -> tuple[bool, int]:
    """Return what sorts the claims on one name."""
    return not claim.granted, claim.ticket
