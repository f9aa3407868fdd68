"""Two processes take one lock in turns: from the release in one to the work in the other."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from multiprocessing.connection import Connection

import lockfast
from benchmarks.duel import HOLD, NAME, TTL, Held, duel, duel_in_a_task
from benchmarks.rounds import interleave, percentile
from benchmarks.stage import Figure, Result, Stage, slug
from benchmarks.workers import Main, answer, two
from lockfast import aio

Rounds = list[list[float]]


def run(stage: Stage) -> Result:
    side = stage.against
    units: dict[str, Main] = {} if side.unit is None else {side.unit[0]: side.unit[1]}
    ours: dict[str, Main] = {"threads": _threads, "asyncio": in_a_task}
    with side.start() as server, ExitStack() as stack:
        turns = {
            name: turn_of(
                stack.enter_context(two(main, server.url)),
                # A peer may poll ten times a second: a short turn would see hardly a handoff.
                stage.pick(1.0, 0.3) if name in side.locks else stage.pick(0.6, 0.15),
                _deliveries if name in units else handoffs,
            )
            for name, main in {**units, **ours, **side.locks}.items()
        }
        results = interleave(turns, stage.count(12, 2), stage.say)
    times = {name: times_of(rounds) for name, rounds in results.items()}
    figures: dict[str, Figure] = {}
    over = f"p50_gap_over_{next(iter(units), '')}".replace(" ", "_")
    for unit in units:
        shares = {name: compare(results[name], results[unit]) for name in [*ours, *side.locks]}
        figures[over] = max(shares[name] for name in ours)
        figures |= {f"{unit}_{field}": value for field, value in times[unit].items()}
        for name, share in shares.items():
            times[name][over] = share
    peer = next(iter(side.locks), None)
    if peer is not None:
        ratios = [compare(results[name], results[peer]) for name in ours]
        figures[f"ratio_to_{slug(peer)}"] = max(ratios)
    figures["hold_ms"] = HOLD * 1000
    return Result(
        figures={**figures, **{name: times[name] for name in [*ours, *side.locks]}},
        head=("gap", "p50 µs", "p99 µs", "lockfast is", "samples"),
        rows=[
            (
                name,
                f"{each['p50_us']:,.0f}",
                f"{each['p99_us']:,.0f}",
                f"{max(compare(results[our], results[name]) for our in ours):.2f} x",
                str(sum(map(len, results[name]))),
            )
            for name, each in times.items()
        ],
    )


def times_of(rounds: Rounds) -> dict[str, float]:
    """Give the percentiles of all gaps."""
    every = [gap for gaps in rounds for gap in gaps]
    return {
        "p50_us": round(percentile(every, 0.5) * 1e6, 1),
        "p99_us": round(percentile(every, 0.99) * 1e6, 1),
    }


def compare(ours: Rounds, theirs: Rounds) -> float:
    """Compare round by round: neighbours in time had the same weather."""
    shares = [
        statistics.median(a) / statistics.median(b) for a, b in zip(ours, theirs, strict=True)
    ]
    return round(statistics.median(shares), 3)


def turn_of(
    pipes: tuple[Connection, Connection],
    seconds: float,
    gaps: Callable[[list[list[Held]]], list[float]],
) -> Callable[[], list[float]]:
    """Make a turn: both workers take turns for so many seconds."""

    def turn() -> list[float]:
        for _ in range(20):
            for pipe in pipes:
                pipe.send(seconds)
            if found := gaps([answer(pipe) for pipe in pipes]):
                return found
        raise AssertionError("the lock never went to the other: one side starves")

    return turn


def handoffs(sides: list[list[Held]]) -> list[float]:
    """Put both sides into one order; count only where the lock went to the other."""
    merged = sorted((held, side) for side, records in enumerate(sides) for held in records)
    gaps = [
        taken.acquired - left.released
        for (left, giver), (taken, taker) in pairwise(merged)
        if giver != taker
    ]
    assert all(gap > 0 for gap in gaps), "two held the lock at once"
    return gaps


def _deliveries(sides: list[list[Held]]) -> list[float]:
    """Put each message's two ends together."""
    sent, received = sides
    return [there.acquired - here.released for here, there in zip(sent, received, strict=True)]


# --- what the processes do ----------------------------------------------------------------------


def _threads(pipe: Connection, _side: int, url: str) -> None:
    with lockfast.connect(url) as client:
        duel(pipe, client.lock(NAME, ttl=TTL).acquire, lambda lease: lease.release())


def in_a_task(pipe: Connection, _side: int, url: str) -> None:
    """Take turns with another process, in a task."""

    async def main() -> None:
        async with aio.connect(url) as client:
            lock = client.lock(NAME, ttl=TTL)
            await duel_in_a_task(pipe, lock.acquire, lambda lease: lease.release())

    asyncio.run(main())
