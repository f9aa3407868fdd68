"""Run seeds: `--seed N` replays one with its trace, `--seeds N` runs the first N."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from tests.robustness.simulation import batched, redlock, replicas, storms
from tests.robustness.simulation import run as one
from tests.robustness.simulation.many import cores, run_many
from tests.robustness.simulation.run import Outcome


def main() -> int:
    """The exit status is 1 if a rule was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one, with a trace")
    parser.add_argument("--seeds", type=int, default=5000, help="how many to run (5000)")
    parser.add_argument("--first", type=int, default=0, help="from this one on (0)")
    parser.add_argument("--processes", type=int, default=cores(), help="how many at once")
    parser.add_argument("--redlock", action="store_true", help="on Redlock's five nodes")
    parser.add_argument("--batched", action="store_true", help="with clients that batch")
    parser.add_argument("--replicas", action="store_true", help="through replicas of the service")
    parser.add_argument("--storm", action="store_true", help="a fleet of clients in a storm")
    parser.add_argument("--clients", type=int, default=1000, help="of the fleet (1000)")
    parser.add_argument("--mutant", choices=list(storms.MUTANTS), help="built this way, in a storm")
    asked = parser.parse_args()
    chosen = (asked.redlock, redlock), (asked.batched, batched), (asked.replicas, replicas)
    run: Callable[..., Outcome] = next((module.run for wanted, module in chosen if wanted), one.run)
    if asked.storm:
        run = partial(storms.run, clients=asked.clients, mutant=asked.mutant)
    if asked.seed is not None:
        outcome = run(asked.seed, tracing=True)
        print(*outcome.trace, sep="\n")
        print(f"seed {asked.seed}: {outcome.broken or 'no rule was broken'}")
        return 1 if outcome.broken else 0
    seen: Counter[str] = Counter()
    failed, cpu = 0, 0.0
    began = time.monotonic()
    many = storms.run_many if asked.storm else run_many
    for batch in many(asked.first, asked.seeds, asked.processes, run):
        seen += batch.seen
        failed += len(batch.broken)
        cpu += batch.spent
        for seed, why in batch.broken.items():
            print(f"seed {seed}: {why}", flush=True)
    spent = time.monotonic() - began
    print(", ".join(f"{what}: {much}" for what, much in sorted(seen.items())))
    idle = cpu / asked.processes
    print(
        f"{asked.seeds} seeds in {spent:.1f} s, {asked.seeds / spent * 60:.0f} a minute "
        f"({asked.seeds / idle * 60:.0f} on {asked.processes} idle cores), {failed} broken"
    )
    if asked.storm:
        lives = asked.seeds * asked.clients
        print(f"{lives} lives of clients, {cpu / lives * 1000:.2f} ms of a core each")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
