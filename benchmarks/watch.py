"""Regressions: the steady ratios of benchmarks/steady.toml, measured again in less than a minute.

It fails only if a ratio is above its limit three times, each time in a new process and on a new
server. docs/explanation/figures.md says how the limits were found.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.pool import Pool
from pathlib import Path

import lockfast
from benchmarks import pair
from benchmarks.against import against
from benchmarks.rounds import fitted, interleave, ratio
from benchmarks.stage import table
from benchmarks.workers import CONTEXT

FILE = Path(__file__).with_name("steady.toml")
TURN = 0.04
"""Seconds: short, because what disturbs a turn should disturb its neighbour too."""
ROUNDS = 50
TRIES = 3


@dataclass(frozen=True, slots=True)
class Steady:
    """CPU time of this process for a pair: an acquisition and a release, in units of another's."""

    engine: str
    to: str
    """The other way: its name in `benchmarks/against`."""
    expected: float
    limit: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was measured: once, or again while each value is above the limit."""

    steady: Steady
    values: Sequence[float]

    @property
    def slower(self) -> bool:
        """Whether every value is above the limit."""
        return min(self.values) > self.steady.limit

    def row(self) -> tuple[str, ...]:
        """Return a row of the table."""
        steady, value = self.steady, min(self.values)
        return (
            f"{steady.engine}, of {steady.to}",
            f"{steady.expected:.3f}",
            ", ".join(f"{each:.3f}" for each in self.values),
            f"{value / steady.expected - 1:+.0%}",
            f"{steady.limit:.3f}",
            "SLOWER" if self.slower else "",
        )


def kept() -> list[Steady]:
    """Return the ratios of the file."""
    return [Steady(**each) for each in tomllib.loads(FILE.read_text("utf-8"))["ratio"]]


def measure(steady: Steady, rounds: int = ROUNDS) -> float:
    """Start a server and measure the ratio on it."""
    side = against(steady.engine)
    with (
        side.start() as server,
        lockfast.connect(server.url) as client,
        side.pairs(server) as others,
    ):
        works = {"lockfast": pair.pairs_of(client), steady.to: others[steady.to]}
        turns = {name: fitted(work, TURN) for name, work in works.items()}
        results = interleave(turns, rounds, lambda _: None)
    return ratio(results["lockfast"], results[steady.to], lambda turn: turn.cpu_us)


def elsewhere(steady: Steady) -> float:
    """Measure in a new process: where its code lies in memory is worth a few percent."""
    with Pool(1, context=CONTEXT) as pool:
        return pool.apply(measure, (steady,))


def watch(steady: Steady, by: Callable[[Steady], float] = elsewhere) -> Verdict:
    """Measure, and again if the value is above the limit."""
    values = [by(steady)]
    while min(values) > steady.limit and len(values) < TRIES:
        values.append(by(steady))
    return Verdict(steady, values)


def main() -> int:
    """Measure, print the differences, and return 1 if something is slower."""
    verdicts = [watch(steady) for steady in kept()]
    head = ("CPU time of a pair", "expected", "measured", "difference", "limit", "")
    print(table(head, [each.row() for each in verdicts]))
    if not any(each.slower for each in verdicts):
        return 0
    print("Find out what costs more. If it has to, write the ratio into benchmarks/steady.toml.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
