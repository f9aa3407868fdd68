"""How a test waits: for a lock to get free, for a queue to look as it should."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from tests.servers import wait_until
from tests.traps.modes import Lease, Lock

T = TypeVar("T")
SOON = 3.0
"""Far less than the 30 s of the leases that tests must not have to wait for, and than a third of
it; and enough for a machine that is busy.
"""


def take_soon(lock: Lock, within: float = SOON) -> Lease:
    """Poll until the lock can be taken, as somebody does who does not queue."""
    taken: list[Lease] = []

    def take() -> bool:
        lease = lock.try_acquire()
        if lease is not None:
            taken.append(lease)
        return bool(taken)

    wait_until(take, "the lock is free", within)
    return taken[0]


def wait_queue(lock: Lock, count: int, within: float = 10.0) -> None:
    """Poll until so many hold the lock or wait for it."""
    wait_until(lambda: len(lock.queue()) == count, f"{count} in the queue", within)


def in_background(work: Callable[[], T]) -> Future[T]:
    """Run something in a thread of its own."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work)
    finally:
        pool.shutdown(wait=False)
