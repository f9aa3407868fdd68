"""The mark, and the rule by which every guard rejects a stale holder. No I/O, and no clocks.

A guarded resource stores one mark per lock: the highest token it has seen, and the id of the claim
with that token. A mark must be kept as long as the name may be locked. If it is deleted, the
resource accepts a stale holder again.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from lockfast.claims import observer
from lockfast.errors import StaleToken
from lockfast.port import Kind
from lockfast.primitives.lease import LeaseCore


class Mark(NamedTuple):
    """The highest token that a guarded resource has seen, and the claim that it belongs to."""

    token: int
    """The token."""
    id: str
    """The claim's id. After a split, both primaries may have given out the same token. Without the
    id, the guard would accept both holders, and one would overwrite the other's update."""


class Shown(NamedTuple):
    """The values of a lease that a guard checks. A request over HTTP carries them in a header."""

    name: str
    """The name of the lock."""
    token: int
    """The token of an exclusive lease, or the ticket of a reader."""
    id: str
    """The id of the claim."""
    floor: int
    """The token to which it raises the mark: its own, or for a reader its `fence_floor`."""
    shared: bool
    """Whether it is a reader's."""

    @property
    def seal(self) -> Mark:
        """The mark that this lease leaves on a resource without a mark."""
        return Mark(self.floor, "" if self.shared else self.id)


Holder: TypeAlias = LeaseCore | Shown
"""What guards accept: a lease, or the values of a lease of another process (`header.parse`)."""


def shown(lease: Holder) -> Shown:
    """Return the values of a lease that a guard checks.

    Args:
        lease: A lease, or what `parse` of the HTTP guard returned.

    Returns:
        The name of the lock, the token and the id of the claim.

    Raises:
        TypeError: The lease is a permit of a semaphore, which cannot be fenced.
    """
    if isinstance(lease, Shown):
        return lease
    claim = lease.claim
    shape = claim.shape
    if shape.exclusive:  # the common case, kept fast, since every guarded write begins here
        return Shown(shape.name, claim.ticket, claim.id, claim.ticket, False)  # noqa: FBT003  # faster
    if shape.kind is Kind.SEMAPHORE:
        raise TypeError(
            f"a permit of {lease.name!r} cannot be fenced: several can be held at once, and one "
            "mark would reject all but the last of them. Guard the resource by an exclusive lock."
        )
    return Shown(lease.name, lease.ticket, lease.id, lease.fence_floor, shared=True)


def admit(mark: Mark | None, at: Shown) -> Mark:
    """Return the mark after a seal or a write. Raise `StaleToken` if the holder is stale.

    A holder writes many times, so an equal token is accepted if the claim is the same (trap 29). A
    reader raises the mark at most to its floor, because other readers with lower tickets may hold
    the lock too.

    Args:
        mark: The mark that the resource has, or None if it has none.
        at: The values of the holder's lease.

    Returns:
        The mark to store. It equals `mark` if nothing changes.

    Raises:
        StaleToken: The mark is of a later holder.
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
    """Return the `StaleToken` for a rejected lease, and mark the lease as LOST.

    After a failover, the renewals of a stale holder may still succeed, so the engine would not
    report the loss. The values of a request (`Shown`) have their lease in another process: there,
    the client side of the HTTP guard marks it as LOST when it reads the response.

    Args:
        lease: A lease, or what `parse` of the HTTP guard returned.
        current: The token of the mark.

    Returns:
        The exception to raise.
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
