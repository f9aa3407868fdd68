"""One thread acquires and releases a free lock: pairs per second, and CPU per pair."""

from __future__ import annotations

import lockfast
from benchmarks.rounds import Work, cpu_us, fitted, interleave, rate, ratio
from benchmarks.stage import Figure, Result, Stage, slug
from benchmarks.unbatched import Unbatched

TTL = 30.0


def run(stage: Stage) -> Result:
    side = stage.against
    with (
        side.start() as server,
        lockfast.connect(server.url) as client,
        lockfast.connect(server.url, engine=Unbatched()) as unbatched,
        side.pairs(server) as pairs,
    ):
        others = {"unbatched": pairs_of(unbatched), **pairs}
        works = {"lockfast": pairs_of(client), **others}
        turns = {name: fitted(work, stage.pick(0.1, 0.02)) for name, work in works.items()}
        results = interleave(turns, stage.count(50, 3), stage.say)
    ours, floor = results["lockfast"], results[side.floor]
    ratios: dict[str, Figure] = {}
    for name in others:
        ratios[f"ratio_to_{slug(name)}"] = round(ratio(ours, results[name]), 3)
        ratios[f"cpu_ratio_to_{slug(name)}"] = round(
            ratio(ours, results[name], lambda turn: turn.cpu_us), 3
        )
    rates = {name: round(rate(turns)) for name, turns in results.items()}
    cpus = {name: round(cpu_us(turns), 1) for name, turns in results.items()}
    return Result(
        figures={**ratios, "pairs_per_second": rates, "cpu_us_per_pair": cpus},
        head=("", "pairs/s", f"of {side.floor}", "CPU µs/pair"),
        rows=[
            (name, f"{rates[name]:,}", f"{ratio(results[name], floor):.2f}", f"{cpus[name]:.1f}")
            for name in sorted(rates, key=lambda each: -rates[each])
        ],
    )


def pairs_of(client: lockfast.Client) -> Work:
    """Return the work of a client: pairs on a lock of its own."""
    lock = client.lock(f"pair {id(client)}", ttl=TTL)

    def work(count: int) -> None:
        for _ in range(count):
            lease = lock.acquire()
            lease.release()

    return work
