"""The clock for engines whose servers have none that decides about a claim: this process's own.

On etcd, ZooKeeper and Redlock, a server does not compare `not_after`. The engine that sends a claim
does, and the replicas of the service use one engine each. So a client fixes `not_after` by the wall
clock of one replica, and another replica compares it by its own. Both must agree within
`TOMB_MARGIN`. Otherwise a late copy may be applied after the claim's tombstone has ended. Then
nobody holds the claim that it makes, and the claim blocks others until its ttl is over. The queue
still has one holder at a time.
"""

from __future__ import annotations

import time


def seconds() -> float:
    """Return the wall clock of this process, in seconds since 1970."""
    return time.time()
