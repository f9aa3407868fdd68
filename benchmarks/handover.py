"""Sixteen locks change hands, each with a waiter, against the same acquisitions without waiters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack

from benchmarks.rounds import Work, cpu_us, fitted, interleave, rate, ratio
from benchmarks.stage import Result, Stage
from lockfast import aio
from lockfast.engines import opener
from lockfast.port import PORT, Ask, Engine, Standing
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads
from lockfast.url import Target

TTL = 30.0
PATIENCE = 60.0  # seconds for one turn: a waiter that is never woken must not hang the benchmark
WITH, WITHOUT = "with waiters", "without waiters"


def run(stage: Stage) -> Result:
    side, names = stage.against, stage.count(16, 4)
    with ExitStack() as stack:
        server = stack.enter_context((side.slow or side.start)())
        runner = stack.enter_context(asyncio.Runner())
        parties = [Party(server.url, f"handover {number}") for number in range(names)]
        for party in parties:
            stack.callback(party.close, runner)
        works = {WITH: _work(runner, parties, _over), WITHOUT: _work(runner, parties, _again)}
        # Long turns: the first acquisition of a turn and its last release are not counted.
        turns = {name: fitted(work, stage.pick(2.0, 0.1), names) for name, work in works.items()}
        results = interleave(turns, stage.count(10, 2), stage.say)
    rates = {name: round(rate(turns), 1) for name, turns in results.items()}
    cpus = {name: round(cpu_us(turns), 1) for name, turns in results.items()}
    share = round(ratio(results[WITH], results[WITHOUT]), 3)
    return Result(
        figures={
            "ratio_to_without_waiters": share,
            "names": names,
            "per_second": rates,
            "cpu_us": cpus,
        },
        head=(f"{names} locks", "acquisitions/s", "of without", "CPU µs each"),
        rows=[
            (name, f"{rates[name]:,}", f"{of:.2f}", f"{cpus[name]:.0f}")
            for name, of in ((WITH, share), (WITHOUT, 1.0))
        ],
    )


class Party:
    """A client with one lock: it is told when a request of its own has to wait."""

    port = PORT

    def __init__(self, url: str, name: str) -> None:
        self.queued = asyncio.Event()
        self.client = aio.connect(url, engine=self)
        self.lock = self.client.lock(name, ttl=TTL)

    def __call__(self, target: Target | None, runtime: Threads | Aio, /) -> Engine:
        """Make the engine of that URL. Nothing else tells when a waiter stands in the queue, and a
        lock that is released before has no waiter.
        """
        assert target is not None  # a benchmark has a URL
        engine = opener(target, runtime)()
        ask_for = engine.claim

        async def claim(ask: Ask, deadline: float) -> Standing | None:
            standing = await ask_for(ask, deadline)
            if standing is not None and not standing.granted:
                self.queued.set()
            return standing

        engine.claim = claim  # type: ignore[method-assign]  # see above
        return engine

    def close(self, runner: asyncio.Runner) -> None:
        runner.run(self.client.close())


Loop = Callable[[Party, int], Coroutine[None, None, None]]
"""Acquires a party's lock so many times."""


async def _over(party: Party, count: int) -> None:
    """Hand the lock over so many times: release it when the next task waits for it."""
    lease = await party.lock.acquire()
    for _ in range(count):
        party.queued.clear()
        waiter = asyncio.create_task(party.lock.acquire())
        await party.queued.wait()
        await lease.release()
        lease = await waiter
    await lease.release()


async def _again(party: Party, count: int) -> None:
    """Release the lock and acquire it, so many times."""
    lease = await party.lock.acquire()
    for _ in range(count):
        await lease.release()
        lease = await party.lock.acquire()
    await lease.release()


def _work(runner: asyncio.Runner, parties: Sequence[Party], loop: Loop) -> Work:
    async def all_of_them(count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(loop(party, count) for party in parties))

    return lambda count: runner.run(all_of_them(count // len(parties)))
