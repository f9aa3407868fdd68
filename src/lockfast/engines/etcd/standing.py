"""Standings: the rule, evaluated on a snapshot that has the own claim in it.

What such a snapshot says to be ahead can only be too much: later claims stand behind, and those
ahead can only leave. So it is as safe here as it would be in etcd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lockfast.engines.etcd.keys import Row
from lockfast.port import Blocker, Standing


def granted(queue: Sequence[Row]) -> int:
    """Count the holders: the first so many of a queue.

    A claim of another capacity than the head's is of another kind of lock. It is put before its
    client can see that, and deleted then, which may fail or be late: until it is gone it holds
    nothing, and lets nobody behind it in.
    """
    weight = 0
    for place, row in enumerate(queue):
        weight += row.weight
        if weight > row.capacity or row.capacity != queue[0].capacity:
            return place
    return len(queue)


def blocker(head: Row, base: int) -> Blocker:
    """Name who stands in the way."""
    return Blocker(head.id, head.revision + base, head.payload)


def standing(
    queue: Sequence[Row], place: int, left: float, base: int, ends: Callable[[Row], float]
) -> Standing:
    """Return where the claim at a place of its queue stands. `ends` tells in how many seconds a
    claim is over unless it is renewed, at most.
    """
    holders = granted(queue)
    head = queue[0]
    return Standing(
        ticket=queue[place].revision + base,
        granted=place < holders,
        left=left,
        ahead=place,
        behind=len(queue) - max(place + 1, holders),
        floor=head.revision + base,
        blocker=None if place < holders else blocker(head, base),
        recheck=min(map(ends, queue)) if place == holders else None,
    )
