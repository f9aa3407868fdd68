"""The permits of a semaphore as a row of squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lockfast.web.claim import Lock

MOST = 60  # squares; with more permits, each stands for several


class Permits(NamedTuple):
    """How many permits are taken."""

    taken: int
    capacity: int
    squares: Sequence[bool]
    """Whether each square is taken."""
    each: int
    """How many permits a square stands for."""


def permits(lock: Lock) -> Permits:
    """Return the permits of a semaphore. Its claims may have been made with different capacities:
    the largest counts.
    """
    capacity = max(claim.capacity for claim in lock.claims)
    taken = sum(claim.weight for claim in lock.holders)
    each = -(-capacity // MOST)
    squares = [number * each < taken for number in range(-(-capacity // each))]
    return Permits(taken, capacity, squares, each)
