"""A hundred asyncio tasks, each with a lock of its own: pairs per second."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from benchmarks.rounds import Work, cpu_us, fitted, interleave, rate, ratio
from benchmarks.stage import Figure, Result, Stage, slug
from benchmarks.unbatched import Unbatched
from lockfast import aio

TASKS = 100
TTL = 30.0


def run(stage: Stage) -> Result:
    """Measure. Other engines than Redis are compared with what one thread of `pair` can do."""
    side = stage.against
    # One runner for both sides: a turn is one run of the same plain event loop.
    with ExitStack() as stack:
        server = stack.enter_context(side.start())
        runner = stack.enter_context(asyncio.Runner())
        clients = {
            "lockfast": aio.connect(server.url),
            "unbatched": aio.connect(server.url, engine=Unbatched()),
        }
        for client in clients.values():
            stack.callback(_close, runner, client)
        peers = side.tasks(server, runner, TASKS) if side.tasks else side.pairs(server)
        others: dict[str, Work] = stack.enter_context(peers)
        works = {name: _lockfast(client, runner) for name, client in clients.items()} | others
        alone = set() if side.tasks else set(others)  # one thread, whose count need not be split
        turns = {
            name: fitted(work, stage.pick(0.2, 0.05), 1 if name in alone else TASKS)
            for name, work in works.items()
        }
        results = interleave(turns, stage.count(30, 3), stage.say)
    rates = {name: round(rate(turns)) for name, turns in results.items()}
    cpus = {name: round(cpu_us(turns), 1) for name, turns in results.items()}
    ours = results["lockfast"]
    figures: dict[str, Figure] = {}
    if side.tasks is None:
        compared = {slug(name): name for name in results if name != "lockfast"}
    else:  # redis-py in the set-up that suits it best
        figures["best_of_redis_py"] = best = max(others, key=lambda name: rates[name])
        compared = {"redis_py": best, "unbatched": "unbatched"}
    for word, name in compared.items():
        figures[f"ratio_to_{word}"] = round(ratio(ours, results[name]), 3)
        figures[f"cpu_ratio_to_{word}"] = round(ratio(ours, results[name], lambda t: t.cpu_us), 3)
    return Result(
        figures={
            **figures,
            "tasks": TASKS,
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


def tasks_of(runner: asyncio.Runner, stack: ExitStack, url: str) -> Work:
    """Return the work of a new client for this URL, which the stack closes."""
    client = runner.run(_connected(url))
    stack.callback(_close, runner, client)
    return _lockfast(client, runner)


async def _connected(url: str) -> aio.AsyncClient:
    return aio.connect(url)


def _lockfast(client: aio.AsyncClient, runner: asyncio.Runner) -> Work:
    locks = [client.lock(f"task {i}", ttl=TTL) for i in range(TASKS)]

    async def loop(lock: aio.AsyncLock, count: int) -> None:
        for _ in range(count):
            lease = await lock.acquire()
            await lease.release()

    async def all_of_them(count: int) -> None:
        await asyncio.gather(*(loop(lock, count) for lock in locks))

    return lambda count: runner.run(all_of_them(max(count // TASKS, 1)))


def _close(runner: asyncio.Runner, client: aio.AsyncClient) -> None:
    runner.run(client.close())
