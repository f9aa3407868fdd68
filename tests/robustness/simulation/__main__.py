"""Run seeds: `--seed N` replays one with its trace, `--seeds N` runs the first N."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter

from tests.robustness.simulation.run import run


def main() -> int:
    """The exit status is 1 if a rule was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one, with a trace")
    parser.add_argument("--seeds", type=int, default=2000, help="how many to run (2000)")
    parser.add_argument("--first", type=int, default=0, help="from this one on (0)")
    asked = parser.parse_args()
    if asked.seed is not None:
        outcome = run(asked.seed, tracing=True)
        print(*outcome.trace, sep="\n")
        print(f"seed {asked.seed}: {outcome.broken or 'no rule was broken'}")
        return 1 if outcome.broken else 0
    seen: Counter[str] = Counter()
    failed = 0
    gc.disable()
    began, cpu = time.monotonic(), time.process_time()
    for seed in range(asked.first, asked.first + asked.seeds):
        outcome = run(seed)
        seen.update(outcome.seen)
        if outcome.broken:
            failed += 1
            print(f"seed {seed}: {outcome.broken}", flush=True)
        if seed % 100 == 99:
            gc.collect()
    spent, cpu = time.monotonic() - began, time.process_time() - cpu
    print(", ".join(f"{what}: {much}" for what, much in sorted(seen.items())))
    print(f"{asked.seeds} seeds in {spent:.1f} s ({cpu:.1f} s of CPU), {failed} broken")
    return 1 if failed else 0


sys.exit(main())
