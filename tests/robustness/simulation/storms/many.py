"""Many storms: each in a process of its own, which takes its memory with it when it ends.

To take a fleet apart and to collect its garbage would cost as much as a quarter of the run.
"""

from __future__ import annotations

import gc
import os
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator

from tests.robustness.simulation.many import Batch
from tests.robustness.simulation.run import Outcome

YOUNG = 2_000_000
"""Objects between two collections, of young garbage only: a large fleet that connects again and
again would need all memory otherwise."""


def run_many(
    first: int, seeds: int, processes: int, one: Callable[[int], Outcome]
) -> Iterator[Batch]:
    """Run seeds, and tell of each when it is done."""
    running: dict[int, tuple[int, int]] = {}
    left = iter(range(first, first + seeds))
    while True:
        while len(running) < processes and (seed := next(left, None)) is not None:
            pid, pipe = _begin(seed, one)
            running[pid] = seed, pipe
        if not running:
            return
        pid, _ = os.wait()
        seed, pipe = running.pop(pid)
        with os.fdopen(pipe, "rb") as reader:
            said = reader.read()
        outcome, spent = (
            pickle.loads(said)  # noqa: S301  # our own process has written it
            if said
            else (Outcome(seed, "the process has died", Counter(), []), 0.0)
        )
        yield Batch(1, outcome.seen, {seed: outcome.broken} if outcome.broken else {}, spent)


def _begin(seed: int, one: Callable[[int], Outcome]) -> tuple[int, int]:
    """Run a seed in a forked process. Its outcome fits into a pipe's buffer."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        gc.freeze()
        gc.set_threshold(YOUNG, YOUNG, YOUNG)
        began = time.process_time()
        outcome = one(seed)
        os.write(writer, pickle.dumps((outcome, time.process_time() - began)))
    finally:
        os._exit(0)
    raise AssertionError  # it has ended
