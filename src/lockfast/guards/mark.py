"""The mark: the rule by which a resource refuses a stale holder. Pure; compares no times.

A resource keeps one mark per name, the highest token it has seen and the id of the claim that
showed it. Deleting a mark reopens the door: it lives as long as the name may be locked.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from lockfast.claims import observer
from lockfast.errors import StaleToken
from lockfast.port import SHARED
from lockfast.primitives.lease import LeaseCore


class Mark(NamedTuple):
    """What a resource remembers."""

    token: int
    id: str
    """Without it, two equal tokens (both primaries of a split minted one) lose an update."""


class Shown(NamedTuple):
    """What a lease shows at the door."""

    name: str
    token: int
    id: str
    floor: int
    """What it raises the mark to: its own token, or for a reader the floor of its grant."""
    shared: bool

    @property
    def seal(self) -> Mark:
        """The mark that it leaves where there was none."""
        return Mark(self.floor, "" if self.shared else self.id)


Holder: TypeAlias = LeaseCore | Shown
"""Who asks a guard: a lease, or what one has shown from afar (in the header of a request)."""


def shown(lease: Holder) -> Shown:
    """Take from a lease what it may show."""
    if isinstance(lease, Shown):
        return lease
    claim = lease.claim
    shape = claim.shape
    if shape.exclusive:  # the common case, in short: every guarded write begins here
        return Shown(shape.name, claim.ticket, claim.id, claim.ticket, False)  # noqa: FBT003  # faster
    if shape.capacity != SHARED:
        raise TypeError(
            f"a permit of {lease.name!r} cannot be fenced: {shape.capacity} hold at once, and one "
            "mark would refuse all but the last of them. Guard the resource by an exclusive lock."
        )
    return Shown(lease.name, lease.ticket, lease.id, lease.fence_floor, shared=True)


def admit(mark: Mark | None, at: Shown) -> Mark:
    """Return the mark after a seal or a write; raise `StaleToken` if neither is allowed any more.

    A holder writes many times, so an equal token passes if it is the same claim's (trap 29). A
    reader never raises the mark above its floor: the readers beside it have lower tickets.
    """
    if mark is None:
        return at.seal
    if at.shared:
        if at.token >= mark.token:
            return max(mark, at.seal, key=lambda each: each.token)
    elif at.token > mark.token or (at.token, at.id) == mark:
        return at.seal
    raise StaleToken(at.name, at.token, mark.token)


def refused(lease: Holder, current: int) -> StaleToken:
    """Make the error of a refusal, after telling the lease: it is LOST from now on.

    After a failover a zombie's renewals may well succeed, so the engine would not tell it. What
    was shown from afar has its lease elsewhere: whoever passes the error on tells it there.
    """
    watcher = observer.watcher
    if isinstance(lease, Shown):
        if watcher is not None:
            watcher.refused(None, lease.name, "")
        return StaleToken(lease.name, lease.token, current)
    if watcher is not None:
        watcher.refused(lease._session, lease.name, lease.claim.shape.template)
    lease.fenced()
    return StaleToken(lease.name, lease.ticket, current)
