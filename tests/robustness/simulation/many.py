"""Many seeds, in as many processes as there are cores."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from tests.robustness.simulation.run import Outcome, run

BATCH = 50  # seeds between two collections of garbage, which cost half of the time otherwise


class Batch(NamedTuple):
    """What came of some seeds."""

    seeds: int
    seen: Counter[str]
    broken: dict[int, str]
    """What was broken, by seed."""
    spent: float
    """Seconds of a core: what it takes on a machine that does nothing else."""


def cores() -> int:
    """Tell how many there are."""
    return os.cpu_count() or 1


def run_many(
    first: int, seeds: int, processes: int, one: Callable[[int], Outcome] = run
) -> Iterator[Batch]:
    """Run seeds, and tell of each batch when it is done."""
    end = first + seeds
    batches = [(start, min(start + BATCH, end)) for start in range(first, end, BATCH)]
    processes = min(processes, len(batches))
    if processes == 1:
        yield from map(partial(_run, one), batches)
        return
    # Spawned and not forked: a fork would take over whatever threads the caller has.
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(partial(_run, one), batches)


def _run(one: Callable[[int], Outcome], batch: tuple[int, int]) -> Batch:
    seen: Counter[str] = Counter()
    broken: dict[int, str] = {}
    collecting, began = gc.isenabled(), time.process_time()
    gc.disable()
    gc.freeze()  # what is there already is no garbage: no collection has to look at it
    try:
        for seed in range(*batch):
            outcome = one(seed)
            seen += outcome.seen
            if outcome.broken:
                broken[seed] = outcome.broken
    finally:
        gc.collect()
        gc.unfreeze()
        if collecting:
            gc.enable()
    return Batch(batch[1] - batch[0], seen, broken, time.process_time() - began)
