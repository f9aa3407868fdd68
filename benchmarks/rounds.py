"""Rounds: contenders take short turns in shuffled order, so what disturbs one disturbs all."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Work = Callable[[int], object]
"""Does its work so many times."""


class Turn(NamedTuple):
    """One turn of one contender."""

    times: int
    wall: float
    cpu: float
    """Seconds of this process, all threads."""

    @property
    def rate(self) -> float:
        """Times per second."""
        return self.times / self.wall

    @property
    def cpu_us(self) -> float:
        """Microseconds of this process's CPU for each time."""
        return self.cpu / self.times * 1e6


def timed(work: Work, count: int) -> Callable[[], Turn]:
    """Make a turn of so many times."""

    def turn() -> Turn:
        cpu, wall = time.process_time(), time.perf_counter()
        work(count)
        return Turn(count, time.perf_counter() - wall, time.process_time() - cpu)

    return turn


def fitted(work: Work, seconds: float, step: int = 1) -> Callable[[], Turn]:
    """Warm a contender up, and make a turn of about so many seconds: a multiple of `step` times.

    A count that the work cannot split evenly would be credited and not done.
    """
    count = max(step, 10)
    timed(work, count)()  # connections are opened and scripts loaded here, outside the estimate
    while (turn := timed(work, count)()).wall < seconds / 2:
        count *= 2
    return timed(work, max(round(turn.rate * seconds / step), 1) * step)


def interleave(
    turns: Mapping[str, Callable[[], T]], rounds: int, say: Callable[[str], None]
) -> dict[str, list[T]]:
    """Let every contender take one turn per round, in a new order each time."""
    results: dict[str, list[T]] = {name: [] for name in turns}
    names = list(turns)
    gc.collect()
    gc.freeze()  # what the imports left is no contender's burden
    try:
        for number in range(1, rounds + 1):
            random.shuffle(names)
            for name in names:
                gc.collect()  # nobody pays for another's garbage
                results[name].append(turns[name]())
            say(f"round {number} of {rounds}")
    finally:
        gc.unfreeze()
    return results


def ratio(
    ours: Sequence[Turn], theirs: Sequence[Turn], of: Callable[[Turn], float] = lambda t: t.rate
) -> float:
    """Compare round by round, and take the median: neighbours in time had the same weather."""
    return statistics.median(of(a) / of(b) for a, b in zip(ours, theirs, strict=True))


def rate(turns: Sequence[Turn]) -> float:
    """Give the median of times per second."""
    return statistics.median(turn.rate for turn in turns)


def cpu_us(turns: Sequence[Turn]) -> float:
    """Give the median of CPU microseconds."""
    return statistics.median(turn.cpu_us for turn in turns)


def percentile(values: Sequence[float], share: float) -> float:
    """Give the value below which that share of them lies."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
