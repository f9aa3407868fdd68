"""A brawl: many processes want one lock at the same time, and none holds it for any time."""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NamedTuple, TypeVar

from benchmarks.workers import orders

T = TypeVar("T")
POLL = 0.001  # seconds between two attempts of those that poll
now = time.monotonic  # CLOCK_MONOTONIC: the same in every process of a machine


class Fought(NamedTuple):
    """What one process got in one turn."""

    grants: int
    """Within the time of the turn."""
    worst: float
    """The longest wait for a grant, in seconds. One that began in the turn may end after it."""


def brawl(pipe: Connection, acquire: Callable[[], T], release: Callable[[T], object]) -> None:
    """Take the lock again and again; `release` gets what `acquire` returned."""
    release(acquire())  # what has to be opened is opened here
    for begin, end in orders(pipe):
        time.sleep(max(begin - now(), 0.0))
        grants, worst = 0, 0.0
        while (asked := now()) < end:
            lease = acquire()
            acquired = now()
            release(lease)
            grants += acquired < end
            worst = max(worst, acquired - asked)
        pipe.send(Fought(grants, worst))
