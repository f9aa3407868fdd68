"""Sixteen processes want one lock and release it at once: grants per second, and the worst wait."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import NamedTuple

import lockfast
from benchmarks.brawl import POLL, Fought, brawl
from benchmarks.rounds import interleave
from benchmarks.stage import Figure, Result, Stage, slug
from benchmarks.workers import Main, answer, worker

NAME = "fight"
TTL = 30.0
OURS = "lockfast"
SOON = 0.05  # seconds: by then the order to begin has reached every process


class Turn(NamedTuple):
    """What all processes of a side got in one turn."""

    rate: float
    worst: float
    least: float
    """The share of the process that got the fewest grants, of an equal share."""


def run(stage: Stage) -> Result:
    """Measure. The peer is the engine's own that polls, or else lockfast's `try_acquire`."""
    side = stage.against
    processes, seconds = stage.count(16, 3), stage.pick(3.0, 0.4)
    peers: dict[str, Main] = side.polling or {"polling": _polling}
    with side.start() as server, ExitStack() as stack:
        turns = {
            name: _turn_of(
                [stack.enter_context(worker(main, server.url)) for _ in range(processes)], seconds
            )
            for name, main in {OURS: _lockfast, **peers}.items()
        }
        results = interleave(turns, stage.count(8, 2), stage.say)
    rates = _medians(results, lambda turn: turn.rate)
    worsts = _medians(results, lambda turn: turn.worst * 1e3)
    leasts = _medians(results, lambda turn: turn.least)
    peer = next(iter(peers))
    pairs = list(zip(results[OURS], results[peer], strict=True))
    figures: dict[str, Figure] = {
        f"ratio_to_{slug(peer)}": _median([a.rate / b.rate for a, b in pairs]),
        "worst_wait_ratio": _median([a.worst / b.worst for a, b in pairs]),
        "processes": processes,
        "per_second": rates,
        "worst_wait_ms": worsts,
        "least_of_an_equal_share": leasts,
    }
    return Result(
        figures=figures,
        head=(f"{processes} processes", "grants/s", "worst wait ms", "least, of an equal share"),
        rows=[
            (name, f"{rates[name]:,.0f}", f"{worsts[name]:,.1f}", f"{leasts[name]:.2f}")
            for name in results
        ],
    )


def _turn_of(pipes: Sequence[Connection], seconds: float) -> Callable[[], Turn]:
    """Make a turn: all of them fight for so many seconds, from one instant on."""

    def turn() -> Turn:
        begin = time.monotonic() + SOON
        for pipe in pipes:
            pipe.send((begin, begin + seconds))
        each: list[Fought] = [answer(pipe) for pipe in pipes]
        grants = sum(one.grants for one in each)
        assert grants, "nobody got the lock"
        least = min(one.grants for one in each) * len(each) / grants
        return Turn(grants / seconds, max(one.worst for one in each), least)

    return turn


def _medians(
    results: Mapping[str, Sequence[Turn]], of: Callable[[Turn], float]
) -> dict[str, float]:
    return {name: _median([of(turn) for turn in turns]) for name, turns in results.items()}


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 3)


# --- what the processes do ----------------------------------------------------------------------


def _lockfast(pipe: Connection, url: str) -> None:
    with lockfast.connect(url) as client:
        brawl(pipe, client.lock(NAME, ttl=TTL).acquire, lambda lease: lease.release())


def _polling(pipe: Connection, url: str) -> None:
    with lockfast.connect(url) as client:
        lock = client.lock(f"{NAME} of those that poll", ttl=TTL)

        def acquire() -> lockfast.Lease:
            while (lease := lock.try_acquire()) is None:
                time.sleep(POLL)
            return lease

        brawl(pipe, acquire, lambda lease: lease.release())
