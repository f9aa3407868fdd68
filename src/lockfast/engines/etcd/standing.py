"""Standings: the client evaluates the rule on a snapshot of a queue that has its claim in it.

Such a snapshot can only overstate what is ahead of the claim: later claims are behind it, and
claims ahead can only leave. So evaluating the rule here is as safe as it would be in etcd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lockfast.engines.etcd.keys import Row
from lockfast.port import Blocker, Standing


def granted(queue: Sequence[Row]) -> int:
    """Return how many claims are granted: they are the first ones of the queue.

    A client puts no claim behind claims of another kind or format. A row like that was left there
    by a client of another version, or was not written by lockfast. It is not granted, and neither
    is any claim behind it. Those ahead of it are not affected.
    """
    weight = 0
    for place, row in enumerate(queue):
        weight += row.weight
        if weight > row.capacity or row.kind is None or row.kind is not queue[0].kind:
            return place
    return len(queue)


def blocker(head: Row, base: int) -> Blocker:
    """Return the head of a queue as a blocker."""
    return Blocker(head.id, head.revision + base, head.payload)


def standing(
    queue: Sequence[Row], place: int, left: float, base: int, ends: Callable[[Row], float]
) -> Standing:
    """Return the standing of the claim at a place of its queue. `ends` returns in how many seconds,
    at most, a claim ends unless it is renewed.
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
