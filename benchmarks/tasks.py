"""A hundred asyncio tasks, each with a lock of its own: pairs per second."""

from __future__ import annotations

import asyncio

from benchmarks.against.redis import TTL, task_pairs
from benchmarks.rounds import Work, cpu_us, fitted, interleave, rate, ratio
from benchmarks.stage import Result, Stage
from lockfast import aio

TASKS = 100


def run(stage: Stage) -> Result:
    # One runner for both sides: a turn is one run of the same plain event loop.
    with stage.against.start() as server, asyncio.Runner() as runner:
        client = aio.connect(server.url)
        others, close_others = runner.run(task_pairs(server, TASKS, runner))
        works = {"lockfast": _lockfast(client, runner), **others}
        turns = {name: fitted(work, stage.pick(0.2, 0.05), TASKS) for name, work in works.items()}
        results = interleave(turns, stage.count(30, 3), stage.say)
        runner.run(client.close())
        runner.run(close_others())
    rates = {name: round(rate(turns)) for name, turns in results.items()}
    cpus = {name: round(cpu_us(turns), 1) for name, turns in results.items()}
    # redis-py in the set-up that suits it best.
    best = max(others, key=lambda name: rates[name])
    ours = results["lockfast"]
    return Result(
        figures={
            "ratio_to_redis_py": round(ratio(ours, results[best]), 3),
            "cpu_ratio_to_redis_py": round(ratio(ours, results[best], lambda t: t.cpu_us), 3),
            "tasks": TASKS,
            "best_of_redis_py": best,
            "pairs_per_second": rates,
            "cpu_us_per_pair": cpus,
        },
        head=(f"{TASKS} tasks", "pairs/s", "lockfast is", "CPU µs/pair"),
        rows=[
            (
                name,
                f"{rates[name]:,}",
                f"{ratio(ours, results[name]):.2f} x",
                f"{cpus[name]:.1f}",
            )
            for name in sorted(rates, key=lambda each: -rates[each])
        ],
    )


def _lockfast(client: aio.AsyncClient, runner: asyncio.Runner) -> Work:
    locks = [client.lock(f"task {i}", ttl=TTL) for i in range(TASKS)]

    async def loop(lock: aio.AsyncLock, count: int) -> None:
        for _ in range(count):
            lease = await lock.acquire()
            await lease.release()

    async def all_of_them(count: int) -> None:
        await asyncio.gather(*(loop(lock, count) for lock in locks))

    return lambda count: runner.run(all_of_them(count // TASKS))
