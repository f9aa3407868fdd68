"""One thread acquires and releases a free lock: pairs per second, and CPU per pair."""

from __future__ import annotations

import lockfast
from benchmarks.against.redis import TTL, pairs
from benchmarks.rounds import Work, cpu_us, fitted, interleave, rate, ratio
from benchmarks.stage import Result, Stage


def run(stage: Stage) -> Result:
    with (
        stage.start() as server,
        lockfast.connect(server.url) as client,
        pairs(server) as others,
    ):
        works = {"lockfast": _lockfast(client), **others}
        turns = {name: fitted(work, stage.pick(0.1, 0.02)) for name, work in works.items()}
        results = interleave(turns, stage.count(50, 3), stage.say)
    ours = results["lockfast"]
    rates = {name: round(rate(turns)) for name, turns in results.items()}
    cpus = {name: round(cpu_us(turns), 1) for name, turns in results.items()}
    shares = {name: ratio(turns, results["raw"]) for name, turns in results.items()}
    return Result(
        figures={
            "ratio_to_raw": round(shares["lockfast"], 3),
            "ratio_to_redis_py": round(ratio(ours, results["redis-py"]), 3),
            "cpu_ratio_to_redis_py": round(ratio(ours, results["redis-py"], lambda t: t.cpu_us), 3),
            "pairs_per_second": rates,
            "cpu_us_per_pair": cpus,
        },
        head=("", "pairs/s", "of raw", "CPU µs/pair"),
        rows=[
            (name, f"{rates[name]:,}", f"{shares[name]:.2f}", f"{cpus[name]:.1f}")
            for name in sorted(rates, key=lambda each: -rates[each])
        ],
    )


def _lockfast(client: lockfast.Client) -> Work:
    lock = client.lock("lockfast", ttl=TTL)

    def work(count: int) -> None:
        for _ in range(count):
            lease = lock.acquire()
            lease.release()

    return work
